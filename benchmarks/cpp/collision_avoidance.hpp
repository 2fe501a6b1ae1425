// SPDX-License-Identifier: Apache-2.0
// Collision avoidance of one arm with itself, the other arm and the floor, as in
// multipanda_py/controllets/features/collision_avoidance.py and control/safety. The own arm is the
// first of both.
#pragma once
#include <array>
#include <vector>

#include "arm.hpp"

using Vector14 = Eigen::Matrix<double, 14, 1>;

class CollisionAvoidance {
 public:
  CollisionAvoidance(const Record& record, const std::string& name);
  ~CollisionAvoidance();

  // Compute all distances in the next cycle.
  void recompute() { min_distance_ = -1.0; }

  // Add braking and repulsion to the torque of the own arm. If a pair is near, the torque is first
  // clipped to its limits.
  void add(const Arm& own, const Arm& other, Vector7& tau);

 private:
  struct Solid;
  struct Near {
    double distance, rate;
    Vector14 gradient;  // Gradient of the distance by the joints of both arms.
  };

  double reach(double speed) const;
  std::vector<Near> find_near(const std::array<const Arm*, 2>& arms);
  void add_forces(const std::vector<Near>& pairs, const std::array<const Arm*, 2>& arms,
                  Vector7& tau);
  Eigen::VectorXd push_apart(const std::vector<Near>& pairs, const Eigen::MatrixXd& coupling) const;
  double required(double distance, double speed, double stop) const;

  double distance_, slope_, ratio_, stop_, deceleration_, bandwidth_;
  std::vector<Solid> solids_;
  std::vector<std::pair<int, int>> pairs_;
  Vector7 weights_;  // Maximum motion of a body per radian of each joint [m/rad].
  Vector14 last_q_ = Vector14::Zero();
  double min_distance_ = -1.0;
};
