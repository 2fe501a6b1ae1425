// SPDX-License-Identifier: Apache-2.0
// Springs and dampers at the tool, as in multipanda_py/control/impedance/{pose_error,modal_damping,
// cartesian_spring,limit_scaling}.py. Gains are diagonal, with one damping ratio for all axes.
#pragma once
#include <algorithm>
#include <cmath>

#include "arm.hpp"

inline Vector3 log3(const Matrix3& rotation) {
  const double cosine = std::clamp(0.5 * (rotation.trace() - 1.0), -1.0, 1.0);
  const Vector3 twice(rotation(2, 1) - rotation(1, 2), rotation(0, 2) - rotation(2, 0),
                      rotation(1, 0) - rotation(0, 1));
  const double angle = std::atan2(0.5 * twice.norm(), cosine);
  return angle < 1e-8 ? 0.5 * twice : angle / (2.0 * std::sin(angle)) * twice;
}

inline Matrix3 exp3(const Vector3& rotation_vector) {
  const double angle = rotation_vector.norm();
  if (angle < 1e-12) return Matrix3::Identity();
  return Eigen::AngleAxisd(angle, rotation_vector / angle).toRotationMatrix();
}

inline Vector6 pose_error(const Vector3& position, const Matrix3& rotation,
                          const Vector3& target_position, const Matrix3& target_rotation) {
  Vector6 error;
  error << target_position - position, log3(target_rotation * rotation.transpose());
  return error;
}

class ModalDamping {
 public:
  ModalDamping(const Vector6& stiffness, double ratio, double bandwidth)
      : half_(stiffness.cwiseSqrt()),
        axes_(ratio * half_),
        pairs_(axes_ * axes_.transpose()),
        ratio_(ratio),
        limit_(0.25 * bandwidth * bandwidth),
        unreduced_(limit_ * std::pow(std::min(1.0, ratio), 2)) {}

  void design(const Matrix6& inertia_inv) {
    const Matrix6 normal = inertia_inv.cwiseProduct(pairs_) + kRegular * Matrix6::Identity();
    eigen_.compute(normal);
    stiffness_scale = 1.0;
    if (eigen_.eigenvalues()[5] <= unreduced_) {
      core_ = eigen_.operatorInverseSqrt();
      return;
    }
    const Vector6 w = eigen_.eigenvalues().cwiseMax(kRegular);
    const Matrix6& v = eigen_.eigenvectors();
    const Vector6 limited = w.cwiseMin(limit_).cwiseSqrt().cwiseQuotient(w);
    core_ = v * limited.asDiagonal() * v.transpose();
    const Vector6 scales = (limit_ * ratio_ * ratio_ * w.cwiseInverse()).cwiseMin(1.0);
    stiffness_scale = scales[5];
    if (stiffness_scale < 1.0) {
      const Matrix6 scaled = half_.asDiagonal() * v;
      stiffness = scaled * scales.asDiagonal() * scaled.transpose();
    }
  }

  Vector6 apply(const Vector6& rate) const {
    return 2.0 * axes_.cwiseProduct(core_ * axes_.cwiseProduct(rate));
  }

  double stiffness_scale = 1.0;
  Matrix6 stiffness;  // Reduced stiffness, computed only if stiffness_scale < 1.

 private:
  static constexpr double kRegular = 1e-8;
  Vector6 half_, axes_;
  Matrix6 pairs_, core_;
  double ratio_, limit_, unreduced_;
  Eigen::SelfAdjointEigenSolver<Matrix6> eigen_;
};

// Compute K' e if the bandwidth limit reduces the stiffness, else K e.
inline Vector6 spring_wrench_of(const ModalDamping& modal, const Vector6& stiffness,
                                const Vector6& error) {
  return modal.stiffness_scale == 1.0 ? stiffness.cwiseProduct(error)
                                      : Vector6(modal.stiffness * error);
}

// Scale of a wrench that keeps every joint within its torque limit.
inline double torque_limit_scale(const Vector6& wrench, const Arm& arm) {
  if (wrench.squaredNorm() <= 25.0) return 1.0;
  const Vector7 load = arm.jacobian.transpose() * wrench;
  const double hardest = load.cwiseQuotient(0.9 * arm.torque_limit).cwiseAbs().maxCoeff();
  return 1.0 / std::max(hardest, 1.0);
}

// Scaling of spring and damper near joint speed limits.
struct VelocityLimitScaling {
  static constexpr double kDampingStart = 0.35, kDampingFull = 0.65, kSpringFadeStart = 0.72;

  static double limit_fraction(const Arm& arm) {
    const double slow = kDampingStart * arm.velocity_limit.minCoeff();
    if (arm.dq.squaredNorm() <= slow * slow) return 0.0;
    return arm.dq.cwiseQuotient(arm.velocity_limit).cwiseAbs().maxCoeff();
  }
  static double spring(double limit_fraction) {
    return std::clamp((1.0 - limit_fraction) / (1.0 - kSpringFadeStart), 0.0, 1.0);
  }
  static double damper(double limit_fraction, double ratio, double stiffness_scale) {
    const double missing = std::max(0.0, std::sqrt(stiffness_scale) / std::max(ratio, 0.3) - 1.0);
    return 1.0 + missing * std::clamp((limit_fraction - kDampingStart) /
                                          (kDampingFull - kDampingStart), 0.0, 1.0);
  }
};

class CartesianSpring {
 public:
  CartesianSpring(const Record& record, const std::string& name)
      : ratio(record.number(name + ".damping_ratio")),
        stiffness_(record.get<6>(name + ".stiffness")),
        clip_(record.get<6>(name + ".error_clip")),
        modal_(stiffness_, ratio, record.number(name + ".bandwidth")) {}

  void measure(const Arm& arm, const Vector3& position, const Matrix3& rotation) {
    error = pose_error(arm.position, arm.rotation, position, rotation)
                .cwiseMin(clip_).cwiseMax(-clip_);
    modal_.design(arm.inertia_inv);
    spring_wrench = spring_wrench_of(modal_, stiffness_, error);
    damper_wrench = -modal_.apply(arm.twist);
  }

  double stiffness_scale() const { return modal_.stiffness_scale; }

  Vector6 error, spring_wrench, damper_wrench;
  double ratio;

 private:
  Vector6 stiffness_, clip_;
  ModalDamping modal_;
};

// Controllet cartesian_impedance.
class CartesianImpedance {
 public:
  CartesianImpedance(const Record& record, const std::string& name) : spring_(record, name) {}

  Vector7 torque(const Arm& arm, const Vector3& position, const Matrix3& rotation) {
    spring_.measure(arm, position, rotation);
    Vector6 spring_wrench = torque_limit_scale(spring_.spring_wrench, arm) * spring_.spring_wrench,
            damper_wrench = spring_.damper_wrench;
    const double limit_fraction = VelocityLimitScaling::limit_fraction(arm);
    if (limit_fraction > VelocityLimitScaling::kDampingStart) {
      spring_wrench *= VelocityLimitScaling::spring(limit_fraction);
      damper_wrench *= VelocityLimitScaling::damper(limit_fraction, spring_.ratio,
                                                    spring_.stiffness_scale());
    }
    return arm.jacobian.transpose() * (spring_wrench + damper_wrench);
  }

 private:
  CartesianSpring spring_;
};
