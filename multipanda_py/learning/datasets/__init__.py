# SPDX-License-Identifier: Apache-2.0
"""Episode data sets in the LeRobot format: recording, reading, checking and replay.

Requires pyarrow and pandas from the extra ``logs``, and the extra ``gym``.
"""

from multipanda_py.registry import require

require("pyarrow", "pandas", "gymnasium")

from multipanda_py.learning.datasets.reader import Dataset, Episode  # noqa: E402
from multipanda_py.learning.datasets.recorder import EpisodeRecorder  # noqa: E402
from multipanda_py.learning.datasets.replay import Replayed, replay  # noqa: E402

__all__ = ["Dataset", "Episode", "EpisodeRecorder", "Replayed", "replay"]
