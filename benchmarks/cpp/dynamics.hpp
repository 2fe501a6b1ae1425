// SPDX-License-Identifier: Apache-2.0
// What pinocchio computes for one arm of seven joints about their z axes.
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
  Matrix67 columns;  // twists of the joints at the origin of the base
  void placement(int joint, Matrix3& rotation, Vector3& position) const;  // in the base; from 1

 private:
  struct Pinocchio;
  std::unique_ptr<Pinocchio> own_;
};
