// SPDX-License-Identifier: Apache-2.0
// Springs and dampers at the tool: multipanda_py/control/{pose_error,modal_damping,
// cartesian_spring,bearable_share,speed_margin}. Diagonal gains, one damping ratio for all axes.
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

inline Matrix3 exp3(const Vector3& turn) {
  const double angle = turn.norm();
  if (angle < 1e-12) return Matrix3::Identity();
  return Eigen::AngleAxisd(angle, turn / angle).toRotationMatrix();
}

inline Vector6 pose_error(const Vector3& position, const Matrix3& rotation,
                          const Vector3& wanted_position, const Matrix3& wanted_rotation) {
  Vector6 error;
  error << wanted_position - position, log3(wanted_rotation * rotation.transpose());
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
        free_(limit_ * std::pow(std::min(1.0, ratio), 2)) {}

  void design(const Matrix6& inertia_inv) {
    const Matrix6 normal = inertia_inv.cwiseProduct(pairs_) + kRegular * Matrix6::Identity();
    eigen_.compute(normal);
    kept = 1.0;
    if (eigen_.eigenvalues()[5] <= free_) {
      core_ = eigen_.operatorInverseSqrt();
      return;
    }
    const Vector6 w = eigen_.eigenvalues().cwiseMax(kRegular);
    const Matrix6& v = eigen_.eigenvectors();
    const Vector6 slowed = w.cwiseMin(limit_).cwiseSqrt().cwiseQuotient(w);
    core_ = v * slowed.asDiagonal() * v.transpose();
    const Vector6 keep = (limit_ * ratio_ * ratio_ * w.cwiseInverse()).cwiseMin(1.0);
    kept = keep[5];
    if (kept < 1.0) {
      const Matrix6 scaled = half_.asDiagonal() * v;
      stiffness = scaled * keep.asDiagonal() * scaled.transpose();
    }
  }

  Vector6 apply(const Vector6& rate) const {
    return 2.0 * axes_.cwiseProduct(core_ * axes_.cwiseProduct(rate));
  }

  double kept = 1.0;
  Matrix6 stiffness;  // only if less than all is kept

 private:
  static constexpr double kRegular = 1e-8;
  Vector6 half_, axes_;
  Matrix6 pairs_, core_;
  double ratio_, limit_, free_;
  Eigen::SelfAdjointEigenSolver<Matrix6> eigen_;
};

// K' e where the posture leaves less than K, else K e.
inline Vector6 pull_of(const ModalDamping& modal, const Vector6& stiffness, const Vector6& error) {
  return modal.kept == 1.0 ? stiffness.cwiseProduct(error) : Vector6(modal.stiffness * error);
}

// The share of a wrench that leaves every joint below its torque limit.
inline double bearable_share(const Vector6& pull, const Arm& arm) {
  if (pull.squaredNorm() <= 25.0) return 1.0;
  const Vector7 load = arm.jacobian.transpose() * pull;
  const double hardest = load.cwiseQuotient(0.9 * arm.torque_limit).cwiseAbs().maxCoeff();
  return 1.0 / std::max(hardest, 1.0);
}

// What fast joints leave of a spring, and how much harder its damper becomes.
struct SpeedMargin {
  static constexpr double kFast = 0.35, kFastest = 0.65, kFading = 0.72;

  static double used(const Arm& arm) {
    const double slow = kFast * arm.velocity_limit.minCoeff();
    if (arm.dq.squaredNorm() <= slow * slow) return 0.0;
    return arm.dq.cwiseQuotient(arm.velocity_limit).cwiseAbs().maxCoeff();
  }
  static double spring(double used) {
    return std::clamp((1.0 - used) / (1.0 - kFading), 0.0, 1.0);
  }
  static double damper(double used, double ratio, double kept) {
    const double missing = std::max(0.0, std::sqrt(kept) / std::max(ratio, 0.3) - 1.0);
    return 1.0 + missing * std::clamp((used - kFast) / (kFastest - kFast), 0.0, 1.0);
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
    pull = pull_of(modal_, stiffness_, error);
    brake = -modal_.apply(arm.twist);
  }

  double kept() const { return modal_.kept; }

  Vector6 error, pull, brake;
  double ratio;

 private:
  Vector6 stiffness_, clip_;
  ModalDamping modal_;
};

// The law cartesian_impedance.
class CartesianImpedance {
 public:
  CartesianImpedance(const Record& record, const std::string& name) : spring_(record, name) {}

  Vector7 torque(const Arm& arm, const Vector3& position, const Matrix3& rotation) {
    spring_.measure(arm, position, rotation);
    Vector6 pull = bearable_share(spring_.pull, arm) * spring_.pull, brake = spring_.brake;
    const double used = SpeedMargin::used(arm);
    if (used > SpeedMargin::kFast) {
      pull *= SpeedMargin::spring(used);
      brake *= SpeedMargin::damper(used, spring_.ratio, spring_.kept());
    }
    return arm.jacobian.transpose() * (pull + brake);
  }

 private:
  CartesianSpring spring_;
};
