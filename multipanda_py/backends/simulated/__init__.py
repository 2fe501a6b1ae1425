# SPDX-License-Identifier: Apache-2.0
"""What lies between the torque a simulated arm is told and the motion of its joints."""
