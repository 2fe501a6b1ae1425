# SPDX-License-Identifier: Apache-2.0
"""Train a small ACT on recorded episodes for a few steps, and save it as LeRobot does.

Usage: python train.py FOLDER POLICY; runs in the environment of ``make test-lerobot``.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import act_policy  # noqa: F401 -- before torchvision
import torch
import torchvision
from lerobot.configs.types import FeatureType
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import dataset_to_policy_features
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.factory import make_policy, make_pre_post_processors

# validate.py uses the same video reader, because this torchvision has none.
spec = spec_from_file_location("video_reader", Path(__file__).parents[1] / "torchvision.py")
video_reader = module_from_spec(spec)
spec.loader.exec_module(video_reader)
torchvision.set_video_backend = video_reader.set_video_backend
torchvision.io.VideoReader = video_reader.VideoReader

folder, saved = Path(sys.argv[1]), Path(sys.argv[2])
CHUNK, STEPS = 10, 20
torch.manual_seed(0)
plain = LeRobotDataset("local/recorded", root=folder, video_backend="pyav")
features = dataset_to_policy_features(plain.features)
outputs = {key: one for key, one in features.items() if one.type is FeatureType.ACTION}
inputs = {key: one for key, one in features.items() if key.startswith("observation.")}
config = ACTConfig(
    input_features=inputs, output_features=outputs, chunk_size=CHUNK, n_action_steps=CHUNK,
    dim_model=64, n_heads=4, dim_feedforward=128, n_encoder_layers=1, n_vae_encoder_layers=1,
    pretrained_backbone_weights=None, device="cpu", push_to_hub=False,
)  # fmt: skip
model = make_policy(config, ds_meta=plain.meta)
before, after = make_pre_post_processors(config, dataset_stats=plain.meta.stats)
dataset = LeRobotDataset(
    "local/recorded", root=folder, video_backend="pyav",
    delta_timestamps={"action": [k / plain.fps for k in range(CHUNK)]},
)  # fmt: skip
loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
losses: list[float] = []
while len(losses) < STEPS:
    for batch in loader:
        loss, _ = model.forward(before(batch))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss))
for part in (model, before, after):
    part.save_pretrained(saved)
sys.stdout.write(f"ACT: loss {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps\n")
