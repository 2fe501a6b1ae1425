# SPDX-License-Identifier: Apache-2.0
"""The part of tf2_ros that crisp_py uses: newest transforms, heard on /tf and /tf_static.

An apt ROS 2 has the whole package, in no package index is any of it.
"""

from geometry_msgs.msg import TransformStamped

from tf2_ros.buffer import Buffer, TransformException
from tf2_ros.transform_listener import TransformListener

__all__ = ["Buffer", "TransformException", "TransformListener", "TransformStamped"]
