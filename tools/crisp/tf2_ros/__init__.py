# SPDX-License-Identifier: Apache-2.0
"""Part of tf2_ros that crisp_py uses: newest transforms of /tf and /tf_static.

An apt ROS 2 has the complete package. No package index has it.
"""

from geometry_msgs.msg import TransformStamped

from tf2_ros.buffer import Buffer, TransformException
from tf2_ros.transform_listener import TransformListener

__all__ = ["Buffer", "TransformException", "TransformListener", "TransformStamped"]
