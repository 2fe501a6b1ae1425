// SPDX-License-Identifier: Apache-2.0
// Controllet force_impedance without a target force: a spring, a damper and the balances of both
// energy tanks, as in multipanda_py/control/force/force_impedance.py and energy_tank.py.
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

  // Add energy up to the capacity, and return the overflow.
  double receive(double added, double held) {
    energy += added;
    const double overflow = std::max(0.0, energy - held - limit);
    energy -= overflow;
    return overflow;
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
    const double stored = 0.5 * spring_.error.dot(spring_.spring_wrench);
    Eigen::Matrix<double, 3, 6> wrenches = Eigen::Matrix<double, 3, 6>::Zero();
    Vector6 spring_wrench =
        soften(stored, spring_.spring_wrench.dot(arm.twist)) * spring_.spring_wrench;
    Vector6 damper_wrench = spring_.damper_wrench;
    spring_wrench *= torque_limit_scale(spring_wrench, arm);
    const double limit_fraction = VelocityLimitScaling::limit_fraction(arm);
    if (limit_fraction > VelocityLimitScaling::kDampingStart) {
      spring_wrench *= VelocityLimitScaling::spring(limit_fraction);
      damper_wrench *= VelocityLimitScaling::damper(limit_fraction, spring_.ratio,
                                                    spring_.stiffness_scale());
    }
    wrenches.row(0) = spring_wrench;
    wrenches.row(1) = damper_wrench;
    torques_.noalias() = wrenches * arm.jacobian;
    return torques_.colwise().sum();
  }

 private:
  // Subtract the work of spring, damper and force controller in the last cycle from the tanks.
  void settle(const Vector7& dq) {
    const Vector3 works = 0.5 * period_ * (torques_ * (dq_ + dq));
    dq_ = dq;
    const double overflow = impedance_.settle(works[0], held_, period_) +
                        force_.settle(works[2], 0.0, period_) - works[1];
    if (force_.missing() > impedance_.missing()) {
      impedance_.receive(force_.receive(overflow, 0.0), held_);
    } else {
      force_.receive(impedance_.receive(overflow, held_), 0.0);
    }
  }

  double soften(double stored, double power) {
    const double required = std::max(stored, 2.0 * period_ * power);
    const double usable = std::max(0.0, impedance_.energy - 1e-3);
    const double scale = required <= usable ? 1.0 : usable / required;
    held_ = scale * stored;
    return scale;
  }

  CartesianSpring spring_;
  EnergyTank impedance_{}, force_{};
  double period_, held_ = 0.0;
  Vector7 dq_ = Vector7::Zero();
  Eigen::Matrix<double, 3, 7> torques_ = Eigen::Matrix<double, 3, 7>::Zero();
};
