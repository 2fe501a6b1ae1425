// SPDX-License-Identifier: Apache-2.0
#include "collision_avoidance.hpp"

#include <coal/distance.h>
#include <coal/shape/geometric_shapes.h>

#include <cmath>
#include <limits>
#include <memory>

namespace {
constexpr double kContact = 0.005, kDeepest = -0.02, kFarthest = 0.6, kTiny = 1e-12;
constexpr double kSpringRate = 2500.0, kDamperRate = 30.0;
constexpr double kMaxForce = 2000.0, kSoft = 1e-4;
constexpr int kSweeps = 20;
enum Kind { kCapsule = 0, kSphere = 1, kHalfspace = 2 };

// Scale of gains with which no mode exceeds a rate, by Gershgorin's theorem.
double scale_within(const Eigen::VectorXd& gains, const Eigen::MatrixXd& responses,
                    double max_rate) {
  const Eigen::VectorXd root = gains.cwiseSqrt();
  const double fastest = root.cwiseProduct(responses.cwiseAbs() * root).maxCoeff();
  return fastest > max_rate ? max_rate / fastest : 1.0;
}

// Projected Gauss-Seidel: minimum forces that give every pair its required acceleration.
Eigen::VectorXd min_forces(Eigen::VectorXd missing, const Eigen::MatrixXd& coupling) {
  Eigen::VectorXd forces = Eigen::VectorXd::Zero(missing.size());
  if (missing.maxCoeff() <= 0.0) return forces;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double largest = 0.0;
    for (int row = 0; row < missing.size(); ++row) {
      if (missing[row] <= 0.0 && forces[row] == 0.0) continue;
      const double unclamped = forces[row] + missing[row] / (coupling(row, row) + kSoft);
      const double change = std::min(std::max(unclamped, 0.0), kMaxForce) - forces[row];
      forces[row] += change;
      missing -= coupling.row(row).transpose() * change;
      largest = std::max(largest, std::abs(change));
    }
    if (largest < 1e-2) break;
  }
  return forces;
}
}  // namespace

struct CollisionAvoidance::Solid {
  int arm, joint;  // Arm 2 is the world.
  Matrix3 rotation;
  Vector3 position;
  std::shared_ptr<coal::ShapeBase> shape;
};

CollisionAvoidance::CollisionAvoidance(const Record& record, const std::string& name)
    : distance_(record.number(name + ".distance")),
      slope_(record.number(name + ".max_force") / (distance_ * distance_)),
      ratio_(record.number(name + ".damping_ratio")),
      stop_(record.number(name + ".stop_distance")),
      deceleration_(record.number(name + ".deceleration")),
      bandwidth_(record.number(name + ".bandwidth")),
      weights_(record.get<7>(name + ".weights")) {
  const std::size_t count = record.numbers(name + ".solids").size() / 17;
  for (std::size_t i = 0; i < count; ++i) {
    // Arm, joint, kind, radius or height, length, placement (3, 4).
    const auto solid = record.get<17>(name + ".solids", i);
    const Eigen::Matrix<double, 3, 4> placement =
        Eigen::Map<const Eigen::Matrix<double, 3, 4, Eigen::RowMajor>>(&solid[5]);
    std::shared_ptr<coal::ShapeBase> shape;
    const int kind = static_cast<int>(solid[2]);
    if (kind == kCapsule) shape = std::make_shared<coal::Capsule>(solid[3], solid[4]);
    if (kind == kSphere) shape = std::make_shared<coal::Sphere>(solid[3]);
    if (kind == kHalfspace)
      shape = std::make_shared<coal::Halfspace>(coal::Vec3s(Vector3::UnitZ()), solid[3]);
    solids_.push_back({static_cast<int>(solid[0]), static_cast<int>(solid[1]),
                       placement.leftCols<3>(), placement.col(3), shape});
  }
  const auto& pairs = record.numbers(name + ".pairs");
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    pairs_.emplace_back(static_cast<int>(pairs[i]), static_cast<int>(pairs[i + 1]));
}

CollisionAvoidance::~CollisionAvoidance() = default;

double CollisionAvoidance::reach(double speed) const {
  const double faster = std::max(speed, 0.0) + deceleration_ / bandwidth_;
  return stop_ + faster * (1.0 / bandwidth_ + faster * 0.5 / deceleration_);
}

void CollisionAvoidance::add(const Arm& own, const Arm& other, Vector7& tau) {
  const std::array<const Arm*, 2> arms{&own, &other};
  Vector14 now, speeds;
  now << own.q, other.q;
  speeds << own.dq, other.dq;
  // Lower bound of all distances, from the last minimum and the motion since then.
  Vector14 weights;
  weights << weights_, weights_;
  const double clearance = min_distance_ - weights.dot((now - last_q_).cwiseAbs());
  const double speed = weights.dot(speeds.cwiseAbs());
  if (clearance >= distance_ && clearance >= reach(speed)) return;
  last_q_ = now;
  const auto pairs = find_near(arms);
  if (!pairs.empty()) add_forces(pairs, arms, tau);
}

std::vector<CollisionAvoidance::Near> CollisionAvoidance::find_near(
    const std::array<const Arm*, 2>& arms) {
  std::array<Matrix67, 2> columns;  // Twists of the joints at the origin of the world.
  std::array<std::array<Vector6, 8>, 2> twists;
  for (int a = 0; a < 2; ++a) {
    columns[a] = arms[a]->dynamics.columns;
    twists[a][0].setZero();
    for (int j = 0; j < 7; ++j) {
      columns[a].col(j).head<3>() +=
          arms[a]->base_position.cross(Vector3(columns[a].col(j).tail<3>()));
      twists[a][j + 1] = twists[a][j] + columns[a].col(j) * arms[a]->dq[j];
    }
  }
  std::vector<coal::Transform3s> placements;
  for (const auto& solid : solids_) {
    if (solid.joint == 0) {  // Fixed bodies have poses in the world.
      placements.emplace_back(solid.rotation, solid.position);
      continue;
    }
    Matrix3 rotation;
    Vector3 position;
    arms[solid.arm]->dynamics.placement(solid.joint, rotation, position);
    placements.emplace_back(
        Matrix3(rotation * solid.rotation),
        Vector3(arms[solid.arm]->base_position + position + rotation * solid.position));
  }
  std::vector<Near> near;
  min_distance_ = std::numeric_limits<double>::infinity();
  const coal::DistanceRequest request(true, true);
  for (const auto& [first, second] : pairs_) {
    coal::DistanceResult result;
    const Solid &a = solids_[first], &b = solids_[second];
    const double distance = coal::distance(a.shape.get(), placements[first], b.shape.get(),
                                           placements[second], request, result);
    min_distance_ = std::min(min_distance_, distance);
    if (distance >= kFarthest) continue;
    Vector6 wrench;
    const Vector3 normal = result.normal, point = result.nearest_points[0];
    wrench << normal, point.cross(normal);
    double rate = 0.0;
    if (a.joint > 0) rate -= wrench.dot(twists[a.arm][a.joint]);
    if (b.joint > 0) rate += wrench.dot(twists[b.arm][b.joint]);
    if (distance >= std::max(distance_, reach(-rate))) continue;
    Near pair{distance, rate, Vector14::Zero()};
    for (int j = 0; j < a.joint; ++j)
      pair.gradient[7 * a.arm + j] -= wrench.dot(columns[a.arm].col(j));
    for (int j = 0; j < b.joint; ++j)
      pair.gradient[7 * b.arm + j] += wrench.dot(columns[b.arm].col(j));
    near.push_back(pair);
  }
  return near;
}

void CollisionAvoidance::add_forces(const std::vector<Near>& pairs,
                             const std::array<const Arm*, 2>& arms, Vector7& tau) {
  const int n = static_cast<int>(pairs.size());
  const Eigen::LLT<Matrix7> own(arms[0]->dynamics.mass), other(arms[1]->dynamics.mass);
  Eigen::MatrixXd gradients(n, 14), responses(n, 14);
  for (int row = 0; row < n; ++row) {
    const Vector14& gradient = pairs[row].gradient;
    gradients.row(row) = gradient;
    responses.row(row).head<7>() = own.solve(gradient.head<7>());
    responses.row(row).tail<7>() = other.solve(gradient.tail<7>());
  }
  const Eigen::VectorXd repulsion = push_apart(pairs, gradients * responses.transpose());
  const auto own_gradients = gradients.leftCols<7>();
  if (bandwidth_ > 0.0) {
    tau = tau.cwiseMin(arms[0]->torque_limit).cwiseMax(-arms[0]->torque_limit);
    const Vector7 acceleration = own.solve(tau - arms[0]->dynamics.coriolis);
    Eigen::VectorXd missing = -(own_gradients * acceleration);
    for (int row = 0; row < n; ++row)
      missing[row] += required(pairs[row].distance, -pairs[row].rate, stop_);
    tau += own_gradients.transpose() *
           min_forces(missing, own_gradients * responses.leftCols<7>().transpose());
  }
  tau += own_gradients.transpose() * repulsion;
}

Eigen::VectorXd CollisionAvoidance::push_apart(const std::vector<Near>& pairs,
                                               const Eigen::MatrixXd& coupling) const {
  const int n = static_cast<int>(pairs.size());
  Eigen::ArrayXd depths(n), rates(n);
  for (int row = 0; row < n; ++row) {
    depths[row] = std::max(distance_ - std::max(pairs[row].distance, 0.0), 0.0);
    rates[row] = pairs[row].rate;
  }
  if (!(depths > 0.0).any()) return Eigen::VectorXd::Zero(n);
  const Eigen::ArrayXd inverse = coupling.diagonal().array() + kTiny;
  const Eigen::ArrayXd stiffest = kSpringRate / inverse;
  const Eigen::ArrayXd soft = depths.min(0.5 * stiffest / slope_);
  const Eigen::ArrayXd forces = slope_ * soft * soft + stiffest * (depths - soft);
  Eigen::ArrayXd scales(n);
  for (int j = 0; j < n; ++j) {
    double sum = 0.0;
    for (int k = 0; k < n; ++k) {
      const double similarity = j == k ? 1.0 : std::max(coupling(j, k), 0.0) /
                                             std::sqrt(inverse[j] * inverse[k]);
      sum += similarity * std::min(1.0, forces[k] / std::max(forces[j], kTiny));
    }
    scales[j] = 1.0 / std::max(sum, 1.0);
  }
  const Eigen::ArrayXd stiffnesses = 2.0 * slope_ * soft;
  scales *= scale_within((scales * stiffnesses).matrix(), coupling, kSpringRate);
  Eigen::ArrayXd dampings = scales * (2.0 * ratio_ * (stiffnesses / inverse).sqrt());
  dampings *= scale_within(dampings.matrix(), coupling, kDamperRate);
  return (scales * forces - dampings * rates).max(0.0).matrix();
}

// Minimum acceleration of a distance at an approach speed.
double CollisionAvoidance::required(double distance, double speed, double stop) const {
  const double a = deceleration_, p = bandwidth_, h = distance - stop;
  double max_speed = p * std::max(h, kDeepest), slope = p;
  if (h >= 0.0) {
    const double root = std::sqrt(1.0 + 2.0 * p * p * h / a);
    max_speed = a / p * (root - 1.0);
    slope = p / root;
  }
  return slope * speed + p * (speed - max_speed);
}
