// SPDX-License-Identifier: Apache-2.0
#include "arm.hpp"

namespace {
constexpr double kWrenchRegularisation = 1e-7;
constexpr double kThreshold = 0.02;
}  // namespace

Arm::Arm(const Record& record, const std::string& name)
    : dynamics(record, name),
      torque_limit(record.get<7>(name + ".torque_limit")),
      velocity_limit(record.get<7>(name + ".velocity_limit")),
      base_position(record.get<3>(name + ".base_position")) {
  const auto tool = record.get<3, 4>(name + ".tool");
  tool_rotation_ = tool.leftCols<3>();
  tool_position_ = tool.col(3);
}

void Arm::set_state(const Record& record, const std::string& name) {
  q = record.get<7>(name + ".q");
  dq = record.get<7>(name + ".dq");
  tau_ext = record.get<7>(name + ".tau_ext");
}

void Arm::update() {
  dynamics.update(q, dq);
  Matrix3 joint_rotation;
  dynamics.placement(7, joint_rotation, position);
  position += joint_rotation * tool_position_;
  rotation = joint_rotation * tool_rotation_;
  jacobian = dynamics.columns;
  for (int j = 0; j < 7; ++j)
    jacobian.col(j).head<3>() += Vector3(jacobian.col(j).tail<3>()).cross(position);
  twist.noalias() = jacobian * dq;
  gram.noalias() = jacobian * jacobian.transpose();
  const Eigen::LLT<Matrix6> normal(gram + kWrenchRegularisation * Matrix6::Identity());
  wrench_ext = normal.solve(jacobian * tau_ext);

  minv_jt = Eigen::LLT<Matrix7>(dynamics.mass).solve(jacobian.transpose());
  inertia_inv.noalias() = jacobian * minv_jt;
  inertia = Eigen::LLT<Matrix6>(inertia_inv).solve(Matrix6::Identity());
  // The norm bounds the smallest eigenvalue of inertia_inv, which takes longer to compute.
  if (inertia.squaredNorm() < 1.0 / (kThreshold * kThreshold)) return;
  const Eigen::SelfAdjointEigenSolver<Matrix6> eigen(inertia_inv, Eigen::EigenvaluesOnly);
  if (eigen.eigenvalues()[0] < kThreshold)
    throw std::runtime_error("nearly singular configuration");
}
