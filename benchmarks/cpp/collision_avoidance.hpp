// SPDX-License-Identifier: Apache-2.0
// Keep one arm off itself, the other arm and the floor: multipanda_py/controllets/features/
// collision_avoidance and its parts. The own arm is the first of both.
#pragma once
#include <array>
#include <vector>

#include "arm.hpp"

using Vector14 = Eigen::Matrix<double, 14, 1>;

class CollisionAvoidance {
 public:
  CollisionAvoidance(const Record& record, const std::string& name);
  ~CollisionAvoidance();

  void look_anew() { clear_ = -1.0; }

  // Add to the own arm's torque, which is cut off at its limits first where a pair is near.
  void add(const Arm& own, const Arm& other, Vector7& tau);

 private:
  struct Solid;
  struct Near {
    double distance, rate;
    Vector14 gradient;  // of the distance, by the joints of both arms
  };

  double reach(double speed) const;
  std::vector<Near> look(const std::array<const Arm*, 2>& arms);
  void act(const std::vector<Near>& pairs, const std::array<const Arm*, 2>& arms, Vector7& tau);
  Eigen::VectorXd push_apart(const std::vector<Near>& pairs, const Eigen::MatrixXd& coupling) const;
  double required(double distance, double speed, double stop) const;

  double distance_, slope_, ratio_, stop_, deceleration_, bandwidth_;
  std::vector<Solid> solids_;
  std::vector<std::pair<int, int>> pairs_;
  Vector7 weights_;  // how far a body moves at most for one radian of each joint
  Vector14 before_ = Vector14::Zero();
  double clear_ = -1.0;
};
