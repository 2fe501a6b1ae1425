# SPDX-License-Identifier: Apache-2.0
"""Policies of LeRobot with a CPU-only torch, for which torchvision has no operators.

The import of torchvision requires the declarations of two operators. Policies do not call them.
"""

import torch

OPERATORS = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from lerobot_policy import make  # noqa: E402

__all__ = ["make"]
