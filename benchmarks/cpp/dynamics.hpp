// SPDX-License-Identifier: Apache-2.0
// Dynamics of an arm with seven revolute joints about z, computed by pinocchio.
#pragma once
#include <memory>

#include "record.hpp"

class Dynamics {
 public:
  Dynamics(const Record& record, const std::string& name);
  ~Dynamics();

  void update(const Vector7& q, const Vector7& dq);

  Matrix7 mass;
  Vector7 coriolis;
  Matrix67 columns;  // Jacobian of the last link at the origin of the base frame.
  // Get the pose of a joint frame, counted from 1, in the base frame.
  void placement(int joint, Matrix3& rotation, Vector3& position) const;

 private:
  struct Pinocchio;
  std::unique_ptr<Pinocchio> own_;
};
