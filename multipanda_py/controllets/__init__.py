# SPDX-License-Identifier: Apache-2.0
"""Built-in control laws, one file each, found by name.

``type: joint_impedance`` is class ``JointImpedance`` in ``joint_impedance.py``.
"""
