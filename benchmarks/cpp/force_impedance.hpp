// SPDX-License-Identifier: Apache-2.0
// The law force_impedance while no force is asked for: a spring and a damper with the books of
// both tanks. multipanda_py/control/{force_impedance_arm,energy_tank}.
#pragma once
#include "impedance.hpp"

struct EnergyTank {
  double energy, granted, limit, power;

  double settle(double work, double held, double period) {
    energy -= work;
    const double missing = granted - energy;
    if (missing > 0.0) {
      energy += std::min(missing, power * period);
      return 0.0;
    }
    return receive(0.0, held);
  }

  // Take energy in, up to the limit; return what overflows.
  double receive(double income, double held) {
    energy += income;
    const double over = std::max(0.0, energy - held - limit);
    energy -= over;
    return over;
  }

  double missing() const { return granted - energy; }
};

class ForceImpedance {
 public:
  ForceImpedance(const Record& record, const std::string& name)
      : spring_(record, name), period_(record.number("period")) {}

  void set_state(const Record& record, const std::string& name) {
    const auto load = [&](EnergyTank& tank, const std::string& of) {
      const Eigen::Vector4d values = record.get<4>(name + of);
      tank = {values[0], values[1], values[2], values[3]};
    };
    load(impedance_, ".impedance_tank");
    load(force_, ".force_tank");
    held_ = record.number(name + ".held");
    dq_ = record.get<7>(name + ".last_dq");
    torques_ = record.get<3, 7>(name + ".last_torques");
  }

  Vector7 torque(const Arm& arm, const Vector3& position, const Matrix3& rotation) {
    settle(arm.dq);
    spring_.measure(arm, position, rotation);
    const double stored = 0.5 * spring_.error.dot(spring_.pull);
    Eigen::Matrix<double, 3, 6> wrenches = Eigen::Matrix<double, 3, 6>::Zero();
    Vector6 pull = soften(stored, spring_.pull.dot(arm.twist)) * spring_.pull;
    Vector6 brake = spring_.brake;
    pull *= bearable_share(pull, arm);
    const double used = SpeedMargin::used(arm);
    if (used > SpeedMargin::kFast) {
      pull *= SpeedMargin::spring(used);
      brake *= SpeedMargin::damper(used, spring_.ratio, spring_.kept());
    }
    wrenches.row(0) = pull;
    wrenches.row(1) = brake;
    torques_.noalias() = wrenches * arm.jacobian;
    return torques_.colwise().sum();
  }

 private:
  // Book what spring, damper and force did in the last cycle.
  void settle(const Vector7& dq) {
    const Vector3 works = 0.5 * period_ * (torques_ * (dq_ + dq));
    dq_ = dq;
    const double over = impedance_.settle(works[0], held_, period_) +
                        force_.settle(works[2], 0.0, period_) - works[1];
    if (force_.missing() > impedance_.missing()) {
      impedance_.receive(force_.receive(over, 0.0), held_);
    } else {
      force_.receive(impedance_.receive(over, held_), 0.0);
    }
  }

  double soften(double stored, double power) {
    const double wanted = std::max(stored, 2.0 * period_ * power);
    const double usable = std::max(0.0, impedance_.energy - 1e-3);
    const double scale = wanted <= usable ? 1.0 : usable / wanted;
    held_ = scale * stored;
    return scale;
  }

  CartesianSpring spring_;
  EnergyTank impedance_{}, force_{};
  double period_, held_ = 0.0;
  Vector7 dq_ = Vector7::Zero();
  Eigen::Matrix<double, 3, 7> torques_ = Eigen::Matrix<double, 3, 7>::Zero();
};
