// SPDX-License-Identifier: Apache-2.0
// Features nullspace and manipulability, as in multipanda_py/controllets/features/nullspace.py and
// singularity.py.
#pragma once
#include "arm.hpp"

// Project torques into the nullspace with I - J^T Lambda J M^-1.
inline Vector7 in_nullspace(const Arm& arm, const Vector7& tau) {
  const Vector6 wrench = arm.inertia * (arm.minv_jt.transpose() * tau);
  return tau - arm.jacobian.transpose() * wrench;
}

class Nullspace {
 public:
  Nullspace(const Record& record, const std::string& name)
      : stiffness_(record.get<7>(name + ".stiffness")),
        damping_(record.get<7>(name + ".damping")),
        max_torque_(record.get<7>(name + ".max_torque")) {}

  Vector7 torque(const Arm& arm, const Vector7& configuration) const {
    const Vector7 spring =
        stiffness_.cwiseProduct(configuration - arm.q) - damping_.cwiseProduct(arm.dq);
    return in_nullspace(arm, spring.cwiseMin(max_torque_).cwiseMax(-max_torque_));
  }

 private:
  Vector7 stiffness_, damping_, max_torque_;
};

class Manipulability {
 public:
  Manipulability(const Record& record, const std::string& name)
      : gain_(record.number(name + ".gain")), threshold_(record.number(name + ".threshold")) {}

  // Compute -dV/dq of V = k (m - m0)^2 with the kinematic Hessian.
  Vector7 torque(const Arm& arm) const {
    const Eigen::LDLT<Matrix6> gram(arm.gram);
    const double squared = gram.vectorD().prod();
    if (!(squared > 1e-16 && squared < threshold_ * threshold_)) return Vector7::Zero();
    const double m = std::sqrt(squared);
    const Matrix67 weight = gram.solve(arm.jacobian);
    Vector7 gradient = Vector7::Zero();
    for (int k = 0; k < 7; ++k) {
      const Vector3 v_k = arm.jacobian.col(k).head<3>(), z_k = arm.jacobian.col(k).tail<3>();
      for (int j = 0; j < 7; ++j) {
        const Vector3 v_j = arm.jacobian.col(j).head<3>(), z_j = arm.jacobian.col(j).tail<3>();
        if (j < k) {
          gradient[k] += weight.col(j).head<3>().dot(z_j.cross(v_k));
        } else {
          gradient[k] += weight.col(j).head<3>().dot(z_k.cross(v_j)) +
                         weight.col(j).tail<3>().dot(z_k.cross(z_j));
        }
      }
    }
    return in_nullspace(arm, -2.0 * gain_ * (m - threshold_) * m * gradient);
  }

 private:
  double gain_, threshold_;
};
