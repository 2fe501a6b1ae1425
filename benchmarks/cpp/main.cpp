// SPDX-License-Identifier: Apache-2.0
// Cycle of two arms with the controllets of one condition, checked and timed by run.py.
//
// usage: reference SCENARIO CPU, then lines on standard input:
//   check CONDITION CASE      print 14 torques [Nm]
//   time CONDITION CYCLES     print the time of every cycle [ns]
#include <sched.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "collision_avoidance.hpp"
#include "coupled_impedance.hpp"
#include "features.hpp"
#include "force_impedance.hpp"
#include "impedance.hpp"

namespace {

using Torques = std::array<Vector7, 2>;

// Arms, controllets and features of one condition of the scenario.
class Cycle {
 public:
  Cycle(const Record& record, const std::string& condition)
      : record_(record),
        name_(condition),
        kind_(record.has(name_ + ".coupled_impedance.stiffness") ? kCoupled
             : record.has(name_ + ".force_impedance.stiffness") ? kForce
                                                                : kCartesian),
        left_(record, "left"),
        right_(record, "right"),
        nullspace_(record, name_ + ".nullspace") {
    if (kind_ == kCoupled) {
      coupled_ = std::make_unique<CoupledImpedance>(record, name_ + ".coupled_impedance");
    }
    for (int i = 0; i < 2; ++i) {
      if (kind_ == kForce) force_.emplace_back(record, name_ + ".force_impedance");
      if (kind_ == kCartesian) cartesian_.emplace_back(record, name_ + ".cartesian_impedance");
    }
    if (record.has(name_ + ".manipulability.gain"))
      manipulability_ = std::make_unique<Manipulability>(record, name_ + ".manipulability");
    for (const char* side : {".left", ".right"}) {
      const std::string avoidance = name_ + side + ".collision_avoidance";
      if (record.has(avoidance + ".distance"))
        avoidance_.push_back(std::make_unique<CollisionAvoidance>(record, avoidance));
    }
  }

  void set_case(const std::string& number) {
    const std::string at = name_ + "." + number + ".";
    const std::array<std::string, 2> sides{at + "left", at + "right"};
    for (int i = 0; i < 2; ++i) {
      arms_[i]->set_state(record_, sides[i]);
      nullspace_configuration_[i] = record_.get<7>(sides[i] + ".nullspace_configuration");
      if (kind_ != kCoupled) {
        position_[i] = record_.get<3>(sides[i] + ".target_position");
        rotation_[i] = record_.get<3, 3>(sides[i] + ".target_rotation");
      }
      if (kind_ == kForce) force_[i].set_state(record_, sides[i]);
    }
    if (coupled_) coupled_->set_state(record_, name_ + "." + number);
    for (auto& avoidance : avoidance_) avoidance->recompute();
  }

  // Compute models, controllets and features. Throws if a torque is not finite.
  __attribute__((noinline)) const Torques& update() {
    for (auto* arm : arms_) arm->update();
    if (coupled_) {
      tau_ = coupled_->torques({arms_[0], arms_[1]});
    }
    for (int i = 0; i < 2; ++i) {
      const Arm& arm = *arms_[i];
      if (kind_ == kCartesian) tau_[i] = cartesian_[i].torque(arm, position_[i], rotation_[i]);
      if (kind_ == kForce) tau_[i] = force_[i].torque(arm, position_[i], rotation_[i]);
      tau_[i] += nullspace_.torque(arm, nullspace_configuration_[i]);
      tau_[i] += arm.dynamics.coriolis;
      if (manipulability_) tau_[i] += manipulability_->torque(arm);
      if (!avoidance_.empty()) avoidance_[i]->add(arm, *arms_[1 - i], tau_[i]);
      if (!tau_[i].allFinite()) throw std::runtime_error(name_ + ": a torque is not finite");
    }
    return tau_;
  }

 private:
  enum Kind { kCartesian, kCoupled, kForce };

  const Record& record_;
  std::string name_;
  Kind kind_;
  Arm left_, right_;
  std::array<Arm*, 2> arms_{&left_, &right_};
  Nullspace nullspace_;
  std::vector<CartesianImpedance> cartesian_;
  std::vector<ForceImpedance> force_;
  std::unique_ptr<CoupledImpedance> coupled_;
  std::unique_ptr<Manipulability> manipulability_;
  std::vector<std::unique_ptr<CollisionAvoidance>> avoidance_;
  std::array<Vector3, 2> position_;
  std::array<Matrix3, 2> rotation_;
  Torques nullspace_configuration_, tau_;
};

void print_times(Cycle& cycle, int cycles) {
  using Clock = std::chrono::steady_clock;
  for (int n = 0; n < 20; ++n) cycle.update();
  std::vector<long long> times;
  for (int n = 0; n < cycles; ++n) {
    const auto begin = Clock::now();
    cycle.update();
    times.push_back(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
  }
  for (const auto time : times) std::cout << time << ' ';
  std::cout << std::endl;
}

int serve(const std::string& scenario) {
  const Record record(scenario);
  std::map<std::string, std::unique_ptr<Cycle>> cycles;
  std::string word, condition, argument, timed;
  std::cout.precision(17);
  while (std::cin >> word >> condition >> argument) {
    auto& cycle = cycles[condition];
    if (!cycle) {
      cycle = std::make_unique<Cycle>(record, condition);
      cycle->set_case("0");  // State at which run.py times Python.
    }
    if (word == "check") {
      cycle->set_case(argument);
      for (const auto& tau : cycle->update()) std::cout << tau.transpose() << ' ';
      std::cout << std::endl;
    } else {
      print_times(*cycle, std::stoi(argument));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: reference SCENARIO CPU\n";
    return 2;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::stoi(argv[2]), &set);
  sched_setaffinity(0, sizeof set, &set);
  try {
    return serve(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
