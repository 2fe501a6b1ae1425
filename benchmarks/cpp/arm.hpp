// SPDX-License-Identifier: Apache-2.0
// The state of one arm and its task space: multipanda_py/robots/dynamics/{arm_dynamics,task_inertia}.
#pragma once
#include "dynamics.hpp"

class Arm {
 public:
  Arm(const Record& record, const std::string& name);

  void set_state(const Record& record, const std::string& name);

  // All below from q, dq and tau_ext; throws where the posture is nearly singular.
  void update();

  Dynamics dynamics;
  Vector7 q, dq, tau_ext;
  Vector3 position;  // of the tool in the base
  Matrix3 rotation;
  Matrix67 jacobian;
  Matrix6 gram;  // J J^T
  Vector6 twist, wrench_ext;
  Matrix76 minv_jt;
  Matrix6 inertia, inertia_inv;

  Vector7 torque_limit, velocity_limit;
  Vector3 base_position;

 private:
  Matrix3 tool_rotation_;  // in the last joint
  Vector3 tool_position_;
};
