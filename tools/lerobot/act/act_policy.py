# SPDX-License-Identifier: Apache-2.0
"""LeRobot's policies beside a torch without CUDA, for which torchvision's operators are missing.

None of them is asked; the declaration of one is, when torchvision is imported.
"""

import torch

OPERATORS = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from lerobot_policy import make  # noqa: E402

__all__ = ["make"]
