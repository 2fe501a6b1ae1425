// SPDX-License-Identifier: Apache-2.0
// State and task-space model of one arm, as in multipanda_py/robots/dynamics/arm_dynamics.py and
// task_inertia.py.
#pragma once
#include "dynamics.hpp"

class Arm {
 public:
  Arm(const Record& record, const std::string& name);

  void set_state(const Record& record, const std::string& name);

  // Compute the model from q, dq and tau_ext. Throws if the configuration is nearly singular.
  void update();

  Dynamics dynamics;
  Vector7 q, dq, tau_ext;
  Vector3 position;  // Pose of the tool in the base frame.
  Matrix3 rotation;
  Matrix67 jacobian;
  Matrix6 gram;  // J J^T
  Vector6 twist, wrench_ext;
  Matrix76 minv_jt;
  Matrix6 inertia, inertia_inv;

  Vector7 torque_limit, velocity_limit;
  Vector3 base_position;

 private:
  Matrix3 tool_rotation_;  // Pose of the tool in the frame of the last joint.
  Vector3 tool_position_;
};
