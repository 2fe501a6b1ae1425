// SPDX-License-Identifier: Apache-2.0
// Controllet coupled_impedance for two arms with parallel bases and no internal force, as in
// multipanda_py/controllets/coupled_impedance.py and control/{grasped_object,grasp_map}.py.
#pragma once
#include <array>

#include "impedance.hpp"

using Vector12 = Eigen::Matrix<double, 12, 1>;
using Matrix12 = Eigen::Matrix<double, 12, 12>;
using Matrix612 = Eigen::Matrix<double, 6, 12>;
using Matrix126 = Eigen::Matrix<double, 12, 6>;

// Map between wrenches and motions of the object and of both end effectors.
class GraspMap {
 public:
  void refresh(const std::array<Vector3, 2>& levers, const std::array<const Arm*, 2>& arms) {
    Matrix126 inertia_shifts;
    for (int i = 0; i < 2; ++i) {
      const Vector3& r = levers[i];
      auto shift = shifts_.block<6, 6>(6 * i, 0);
      shift.setIdentity();
      shift.block<3, 3>(0, 3) << 0, r.z(), -r.y(), -r.z(), 0, r.x(), r.y(), -r.x(), 0;
      inertia_shifts.block<6, 6>(6 * i, 0).noalias() = arms[i]->inertia * shift;
      inward[i] = -r / std::max(r.norm(), 1e-6);
    }
    const Vector3 mean = 0.5 * (inward[0] + inward[1]);
    for (auto& force : inward) force -= mean;
    internal_unit_ << inward[0], Vector3::Zero(), inward[1], Vector3::Zero();
    object_.compute(shifts_.transpose() * inertia_shifts);
    consistent_ = object_.solve(inertia_shifts.transpose());
    internal_motion_ = consistent_ * internal_unit_ / std::max(internal_unit_.squaredNorm(), 1e-12);
    object_motion_ = consistent_ - internal_motion_ * internal_unit_.transpose();
    error_projector_ = Matrix12::Identity() - shifts_ * object_motion_;
    rate_projector_ = Matrix12::Identity() - shifts_ * consistent_;
  }

  void measure(const Vector12& offsets, const Vector12& offset_rates) {
    errors.noalias() = error_projector_ * offsets;
    shift.noalias() = object_motion_ * offsets;
    rate.noalias() = object_motion_ * offset_rates;
    rates.noalias() = rate_projector_ * offset_rates;
  }

  Vector12 distribute(const Vector12& springs, const Vector6& wrench, const Vector12& dampers,
                      double internal_force) const {
    return error_projector_.transpose() * springs + object_motion_.transpose() * wrench +
           rate_projector_.transpose() * dampers + internal_force * internal_unit_;
  }

  Matrix6 inertia_inv(const std::array<const Arm*, 2>& arms) const {
    double mobility = 0.0;
    for (int i = 0; i < 2; ++i)
      mobility += inward[i].dot(arms[i]->inertia_inv.topLeftCorner<3, 3>() * inward[i]);
    return Matrix6(object_.solve(Matrix6::Identity())) +
           mobility * internal_motion_ * internal_motion_.transpose();
  }

  Vector12 errors, rates;
  Vector6 shift, rate;
  std::array<Vector3, 2> inward;

 private:
  Matrix126 shifts_;
  Vector12 internal_unit_;
  Eigen::LLT<Matrix6> object_;
  Matrix612 consistent_, object_motion_;
  Matrix12 error_projector_, rate_projector_;
  Vector6 internal_motion_;
};

class CoupledImpedance {
 public:
  CoupledImpedance(const Record& record, const std::string& name)
      : stiffness_(record.get<6>(name + ".stiffness")),
        relative_(record.get<6>(name + ".relative_stiffness")),
        clip_(record.get<6>(name + ".error_clip")),
        dampers_{make_damper(record, name), make_damper(record, name)},
        object_(stiffness_, record.number(name + ".damping_ratio"),
                record.number(name + ".bandwidth")) {}

  void set_state(const Record& record, const std::string& name) {
    for (int i = 0; i < 2; ++i) {
      grasps_[i] = record.get<3>(name + ".grasps", i);
      inverse_grasps_[i] = record.get<3, 3>(name + ".grasp_backs", i);
    }
    position_ = record.get<3>(name + ".object_position");
    rotation_ = record.get<3, 3>(name + ".object_rotation");
    update_all_ = true;
  }

  std::array<Vector7, 2> torques(const std::array<const Arm*, 2>& arms) {
    sense(arms, update_all_ || phase_ == kEvery * 2);
    design(arms);
    measured_internal_force = internal_force(arms);
    Vector12 springs, dampers;
    for (int i = 0; i < 2; ++i) {
      springs.segment<6>(6 * i) =
          spring_wrench_of(dampers_[i], relative_, map_.errors.segment<6>(6 * i));
      dampers.segment<6>(6 * i) = dampers_[i].apply(map_.rates.segment<6>(6 * i));
    }
    Vector6 error = pose_error(held_position_, held_rotation_, position_, rotation_) + map_.shift;
    error = error.cwiseMin(clip_).cwiseMax(-clip_);
    const Vector6 wrench = spring_wrench_of(object_, stiffness_, error) + object_.apply(map_.rate);
    const Vector12 wrenches = map_.distribute(springs, wrench, dampers, 0.0);
    return {arms[0]->jacobian.transpose() * wrenches.head<6>(),
            arms[1]->jacobian.transpose() * wrenches.tail<6>()};
  }

  double measured_internal_force = 0.0;

 private:
  static constexpr int kEvery = 2;  // Cycles between updates.

  static ModalDamping make_damper(const Record& record, const std::string& name) {
    return {record.get<6>(name + ".relative_stiffness"), record.number(name + ".damping_ratio"),
            record.number(name + ".bandwidth")};
  }

  // Estimate the pose of the object, and the errors of both end effectors relative to their grasps.
  void sense(const std::array<const Arm*, 2>& arms, bool refresh) {
    std::array<Vector3, 2> positions, levers;
    std::array<Matrix3, 2> implied;
    Vector12 offsets, rates;
    for (int i = 0; i < 2; ++i) {
      positions[i] = arms[i]->position + arms[i]->base_position;
      implied[i] = arms[i]->rotation * inverse_grasps_[i];
      rates.segment<6>(6 * i) = -arms[i]->twist;
    }
    const Vector3 mean = 0.5 * log3(implied[0].transpose() * implied[1]);
    held_rotation_ = implied[0] * exp3(mean);
    held_position_ = 0.5 * (positions[0] + positions[1]);
    const Vector3 half_difference = implied[0] * mean;
    for (int i = 0; i < 2; ++i) {
      levers[i] = held_rotation_ * grasps_[i];
      offsets.segment<3>(6 * i) = levers[i] + held_position_ - positions[i];
      offsets.segment<3>(6 * i + 3) = i == 0 ? half_difference : Vector3(-half_difference);
    }
    if (refresh) map_.refresh(levers, arms);
    map_.measure(offsets, rates);
  }

  // Every second cycle updates one part in turn: the damper of each end effector, the grasp map (in
  // `sense`), or the damper of the object.
  void design(const std::array<const Arm*, 2>& arms) {
    for (int index = 0; index < 4; ++index) {
      if (!update_all_ && phase_ != kEvery * index) continue;
      if (index < 2) dampers_[index].design(arms[index]->inertia_inv);
      if (index == 3) object_.design(map_.inertia_inv(arms));
    }
    phase_ = (phase_ + 1) % (kEvery * 4);
    update_all_ = false;
  }

  double internal_force(const std::array<const Arm*, 2>& arms) const {
    double total = 0.0, size = 0.0;
    for (int i = 0; i < 2; ++i) {
      total -= arms[i]->wrench_ext.head<3>().dot(map_.inward[i]);
      size += map_.inward[i].squaredNorm();
    }
    return total / std::max(size, 1e-12);
  }

  Vector6 stiffness_, relative_, clip_;
  std::array<ModalDamping, 2> dampers_;
  ModalDamping object_;
  GraspMap map_;
  std::array<Vector3, 2> grasps_;
  std::array<Matrix3, 2> inverse_grasps_;
  Vector3 position_, held_position_;
  Matrix3 rotation_, held_rotation_;
  int phase_ = 0;
  bool update_all_ = true;
};
