// SPDX-License-Identifier: Apache-2.0
// The law coupled_impedance for two hands of arms whose bases are not turned, without a squeeze:
// multipanda_py/controllets/coupled_impedance and control/{held_object,grasp_map}.
#pragma once
#include <array>

#include "impedance.hpp"

using Vector12 = Eigen::Matrix<double, 12, 1>;
using Matrix12 = Eigen::Matrix<double, 12, 12>;
using Matrix612 = Eigen::Matrix<double, 6, 12>;
using Matrix126 = Eigen::Matrix<double, 12, 6>;

// How both hands share a wrench on the object, and what of their motion is the object's.
class GraspMap {
 public:
  void refresh(const std::array<Vector3, 2>& levers, const std::array<const Arm*, 2>& arms) {
    Matrix126 moved;
    for (int i = 0; i < 2; ++i) {
      const Vector3& r = levers[i];
      auto shift = shifts_.block<6, 6>(6 * i, 0);
      shift.setIdentity();
      shift.block<3, 3>(0, 3) << 0, r.z(), -r.y(), -r.z(), 0, r.x(), r.y(), -r.x(), 0;
      moved.block<6, 6>(6 * i, 0).noalias() = arms[i]->inertia * shift;
      inward[i] = -r / std::max(r.norm(), 1e-6);
    }
    const Vector3 mean = 0.5 * (inward[0] + inward[1]);
    for (auto& force : inward) force -= mean;
    press_ << inward[0], Vector3::Zero(), inward[1], Vector3::Zero();
    object_.compute(shifts_.transpose() * moved);
    consistent_ = object_.solve(moved.transpose());
    extra_ = consistent_ * press_ / std::max(press_.squaredNorm(), 1e-12);
    lasting_ = consistent_ - extra_ * press_.transpose();
    still_ = Matrix12::Identity() - shifts_ * lasting_;
    slip_ = Matrix12::Identity() - shifts_ * consistent_;
  }

  void measure(const Vector12& ways, const Vector12& way_rates) {
    errors.noalias() = still_ * ways;
    shift.noalias() = lasting_ * ways;
    rate.noalias() = lasting_ * way_rates;
    rates.noalias() = slip_ * way_rates;
  }

  Vector12 share(const Vector12& springs, const Vector6& wrench, const Vector12& dampers,
                 double squeeze) const {
    return still_.transpose() * springs + lasting_.transpose() * wrench +
           slip_.transpose() * dampers + squeeze * press_;
  }

  Matrix6 inertia_inv(const std::array<const Arm*, 2>& arms) const {
    double light = 0.0;
    for (int i = 0; i < 2; ++i)
      light += inward[i].dot(arms[i]->inertia_inv.topLeftCorner<3, 3>() * inward[i]);
    return Matrix6(object_.solve(Matrix6::Identity())) + light * extra_ * extra_.transpose();
  }

  Vector12 errors, rates;
  Vector6 shift, rate;
  std::array<Vector3, 2> inward;

 private:
  Matrix126 shifts_;
  Vector12 press_;
  Eigen::LLT<Matrix6> object_;
  Matrix612 consistent_, lasting_;
  Matrix12 still_, slip_;
  Vector6 extra_;
};

class CoupledImpedance {
 public:
  CoupledImpedance(const Record& record, const std::string& name)
      : stiffness_(record.get<6>(name + ".stiffness")),
        relative_(record.get<6>(name + ".relative_stiffness")),
        clip_(record.get<6>(name + ".error_clip")),
        hands_{hand(record, name), hand(record, name)},
        object_(stiffness_, record.number(name + ".damping_ratio"),
                record.number(name + ".bandwidth")) {}

  void set_state(const Record& record, const std::string& name) {
    for (int i = 0; i < 2; ++i) {
      grasps_[i] = record.get<3>(name + ".grasps", i);
      backs_[i] = record.get<3, 3>(name + ".grasp_backs", i);
    }
    position_ = record.get<3>(name + ".object_position");
    rotation_ = record.get<3, 3>(name + ".object_rotation");
    all_are_due_ = true;
  }

  std::array<Vector7, 2> torques(const std::array<const Arm*, 2>& arms) {
    sense(arms, all_are_due_ || turn_ == kEvery * 2);
    design(arms);
    measured_squeeze = squeeze(arms);
    Vector12 springs, dampers;
    for (int i = 0; i < 2; ++i) {
      springs.segment<6>(6 * i) = pull_of(hands_[i], relative_, map_.errors.segment<6>(6 * i));
      dampers.segment<6>(6 * i) = hands_[i].apply(map_.rates.segment<6>(6 * i));
    }
    Vector6 error = pose_error(held_position_, held_rotation_, position_, rotation_) + map_.shift;
    error = error.cwiseMin(clip_).cwiseMax(-clip_);
    const Vector6 wrench = pull_of(object_, stiffness_, error) + object_.apply(map_.rate);
    const Vector12 shared = map_.share(springs, wrench, dampers, 0.0);
    return {arms[0]->jacobian.transpose() * shared.head<6>(),
            arms[1]->jacobian.transpose() * shared.tail<6>()};
  }

  double measured_squeeze = 0.0;

 private:
  static constexpr int kEvery = 2;  // cycles

  static ModalDamping hand(const Record& record, const std::string& name) {
    return {record.get<6>(name + ".relative_stiffness"), record.number(name + ".damping_ratio"),
            record.number(name + ".bandwidth")};
  }

  // Where the object is, and how far each hand is from where its grasp says that it is.
  void sense(const std::array<const Arm*, 2>& arms, bool refresh) {
    std::array<Vector3, 2> hands, levers;
    std::array<Matrix3, 2> said;
    Vector12 ways, rates;
    for (int i = 0; i < 2; ++i) {
      hands[i] = arms[i]->position + arms[i]->base_position;
      said[i] = arms[i]->rotation * backs_[i];
      rates.segment<6>(6 * i) = -arms[i]->twist;
    }
    const Vector3 mean = 0.5 * log3(said[0].transpose() * said[1]);
    held_rotation_ = said[0] * exp3(mean);
    held_position_ = 0.5 * (hands[0] + hands[1]);
    const Vector3 lean = said[0] * mean;
    for (int i = 0; i < 2; ++i) {
      levers[i] = held_rotation_ * grasps_[i];
      ways.segment<3>(6 * i) = levers[i] + held_position_ - hands[i];
      ways.segment<3>(6 * i + 3) = i == 0 ? lean : Vector3(-lean);
    }
    if (refresh) map_.refresh(levers, arms);
    map_.measure(ways, rates);
  }

  // One in every second cycle, in turn: dampers of the hands, levers and inertia (above), the
  // object's damper.
  void design(const std::array<const Arm*, 2>& arms) {
    for (int place = 0; place < 4; ++place) {
      if (!all_are_due_ && turn_ != kEvery * place) continue;
      if (place < 2) hands_[place].design(arms[place]->inertia_inv);
      if (place == 3) object_.design(map_.inertia_inv(arms));
    }
    turn_ = (turn_ + 1) % (kEvery * 4);
    all_are_due_ = false;
  }

  double squeeze(const std::array<const Arm*, 2>& arms) const {
    double total = 0.0, size = 0.0;
    for (int i = 0; i < 2; ++i) {
      total -= arms[i]->wrench_ext.head<3>().dot(map_.inward[i]);
      size += map_.inward[i].squaredNorm();
    }
    return total / std::max(size, 1e-12);
  }

  Vector6 stiffness_, relative_, clip_;
  std::array<ModalDamping, 2> hands_;
  ModalDamping object_;
  GraspMap map_;
  std::array<Vector3, 2> grasps_;
  std::array<Matrix3, 2> backs_;
  Vector3 position_, held_position_;
  Matrix3 rotation_, held_rotation_;
  int turn_ = 0;
  bool all_are_due_ = true;
};
