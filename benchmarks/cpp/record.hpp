// SPDX-License-Identifier: Apache-2.0
// Named numbers of the file that scenario.py writes.
#pragma once
#include <Eigen/Dense>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using Vector3 = Eigen::Vector3d;
using Matrix3 = Eigen::Matrix3d;
using Vector6 = Eigen::Matrix<double, 6, 1>;
using Matrix6 = Eigen::Matrix<double, 6, 6>;
using Vector7 = Eigen::Matrix<double, 7, 1>;
using Matrix7 = Eigen::Matrix<double, 7, 7>;
using Matrix67 = Eigen::Matrix<double, 6, 7>;
using Matrix76 = Eigen::Matrix<double, 7, 6>;

class Record {
 public:
  explicit Record(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    std::string line, name, number;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      words >> name;
      auto& values = values_[name];
      while (words >> number) values.push_back(std::strtod(number.c_str(), nullptr));
    }
  }

  bool has(const std::string& name) const { return values_.count(name) > 0; }

  const std::vector<double>& numbers(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::runtime_error(name + ": not in the scenario");
    return found->second;
  }

  double number(const std::string& name) const { return numbers(name).at(0); }

  // Return matrix `index` of an entry. The file has matrices row by row.
  template <int Rows, int Columns = 1>
  Eigen::Matrix<double, Rows, Columns> get(const std::string& name, std::size_t index = 0) const {
    const auto& all = numbers(name);
    if (all.size() < (index + 1) * Rows * Columns) throw std::runtime_error(name + ": too short");
    Eigen::Matrix<double, Rows, Columns> matrix;
    const double* from = all.data() + index * Rows * Columns;
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Columns; ++j) matrix(i, j) = from[i * Columns + j];
    return matrix;
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};
