// SPDX-License-Identifier: Apache-2.0
// Only this file includes the headers of pinocchio, since they compile for most of a minute.
#include "dynamics.hpp"

#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>

struct Dynamics::Pinocchio {
  pinocchio::Model model;
  std::unique_ptr<pinocchio::Data> data;
  Eigen::VectorXd q{7}, dq{7};
};

Dynamics::Dynamics(const Record& record, const std::string& name) : own_(new Pinocchio) {
  auto& model = own_->model;
  pinocchio::JointIndex joint = 0;
  for (int i = 0; i < 7; ++i) {
    const auto origin = record.get<3, 4>(name + ".placements", i);
    joint = model.addJoint(joint, pinocchio::JointModelRZ(),
                           pinocchio::SE3(origin.leftCols<3>(), origin.col(3)), std::to_string(i));
    const auto link = record.get<13>(name + ".inertias", i);  // Mass, centre of mass, inertia.
    Matrix3 inertia;
    inertia << link[4], link[5], link[6], link[7], link[8], link[9], link[10], link[11], link[12];
    model.appendBodyToJoint(joint, pinocchio::Inertia(link[0], link.segment<3>(1), inertia),
                            pinocchio::SE3::Identity());
  }
  model.armature = record.get<7>(name + ".armature");
  model.gravity.setZero();
  own_->data = std::make_unique<pinocchio::Data>(model);
}

Dynamics::~Dynamics() = default;

void Dynamics::update(const Vector7& q, const Vector7& dq) {
  auto& data = *own_->data;
  own_->q = q;
  own_->dq = dq;
  // The library instantiates crba for a Ref. With a vector it would be compiled here.
  const Eigen::Ref<const Eigen::VectorXd> at(own_->q);
  pinocchio::crba(own_->model, data, at, pinocchio::Convention::WORLD);
  pinocchio::nonLinearEffects(own_->model, data, own_->q, own_->dq);
  mass = data.M.selfadjointView<Eigen::Upper>();
  coriolis = data.nle;
  columns = data.J;
}

void Dynamics::placement(int joint, Matrix3& rotation, Vector3& position) const {
  rotation = own_->data->oMi[joint].rotation();
  position = own_->data->oMi[joint].translation();
}
