# SPDX-License-Identifier: Apache-2.0
"""Episodes are saved or discarded as a whole, and replay reproduces them."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ConfigurationError, DatasetRejected
from multipanda_py.learning.datasets import Dataset, EpisodeRecorder, replay
from multipanda_py.learning.datasets.reader import (
    EXTRA_METADATA_FILE,
    INFO_FILE,
    data_file,
    episode_file,
    video_file,
)
from multipanda_py.learning.datasets.recorder import EpisodeVideoWriter, count_frames
from multipanda_py.learning.datasets.replay import check
from multipanda_py.learning.gym import CellEnv

pytestmark = [pytest.mark.sim, pytest.mark.inline]


@pytest.fixture(scope="module")
def env():
    """Reach task of one arm, at a rate that does not divide the rate of the cell."""
    made = CellEnv("reach", rate=30.0)
    yield made
    made.close()


def record(recorder, seed, steps=12):
    observed, _ = recorder.start_episode(seed)
    for _ in range(steps):
        observed, _, ends, _, _ = recorder.step(recorder_action(recorder))
        if ends:
            break
    return observed


def recorder_action(recorder):
    return recorder.env.expert_action()


def recorded(env, folder, count=2):
    with EpisodeRecorder(env, folder, instruction="reach the point") as recorder:
        for seed in range(count):
            record(recorder, seed)
            recorder.end()
    return Dataset(folder)


def test_recorded_episode_reads_back_unchanged(env, tmp_path):
    dataset = recorded(env, tmp_path / "set")
    assert len(dataset) == 2
    assert check(dataset) == []
    episode = dataset[1]
    assert episode.task == "reach the point"
    assert episode.metadata["seed"] == 1
    env.reset(seed=1)
    first = env.expert_action()
    np.testing.assert_array_equal(episode["action"][0], first)
    names = dataset.info["features"]["observation.state"]["names"]
    assert episode["observation.state"].shape == (12, len(names))
    np.testing.assert_array_equal(episode["index"], np.arange(12, 24))


def test_data_set_with_former_names_was_rejected(env, tmp_path):
    folder = recorded(env, tmp_path / "set", 1).folder
    expected = Dataset(folder)[0]
    for name, renamed in (
        (EXTRA_METADATA_FILE, {'"objects"': '"things"', '"delta_pose"': '"pose_step"'}),
        (INFO_FILE, {'"image_time"': '"picture_time"'}),
    ):
        text = (folder / name).read_text()
        for new, old in renamed.items():
            assert new in text
            text = text.replace(new, old)
        (folder / name).write_text(text)
    table = pq.read_table(data_file(folder, 0))
    names = [{"image_time": "picture_time"}.get(name, name) for name in table.column_names]
    pq.write_table(table.rename_columns(names), data_file(folder, 0))
    dataset = Dataset(folder)
    assert (dataset.extra_metadata["objects"], dataset.extra_metadata["control"]) == (
        True,
        "delta_pose",
    )
    np.testing.assert_array_equal(dataset[0]["image_time"], expected["image_time"])


def test_frames_stay_within_one_cycle_of_their_instants(env, tmp_path):
    episode = recorded(env, tmp_path / "set", 1)[0]
    assert episode.skew < 0.001
    assert len(episode) == 12


def test_data_set_statistics_cover_all_frames(env, tmp_path):
    dataset = recorded(env, tmp_path / "set")
    stats = json.loads((dataset.folder / "meta/stats.json").read_text())
    actions = np.concatenate([episode["action"] for episode in dataset]).astype(float)
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(
            stats["action"][name], getattr(actions, name)(axis=0), atol=1e-9
        )
    assert stats["action"]["count"] == [24]


def test_replayed_episode_ends_in_same_state(env, tmp_path):
    dataset = recorded(env, tmp_path / "set")
    assert max(replay(dataset, 1, env).apart.values()) < 1e-6
    assert main(["dataset", "replay", str(dataset.folder), "--episode", "1"]) == 0
    table = pq.read_table(data_file(dataset.folder, 1))
    number = table.column_names.index("action")
    other = table["action"].combine_chunks()
    moved = other.from_arrays(-other.flatten(), len(other[0]))
    pq.write_table(table.set_column(number, "action", moved), data_file(dataset.folder, 1))
    assert max(replay(Dataset(dataset.folder), 1, env).apart.values()) > 0.005


def test_discarded_and_repeated_episodes_leave_nothing(env, tmp_path):
    with EpisodeRecorder(env, tmp_path / "set", instruction="reach") as recorder:
        record(recorder, 5)
        recorder.discard()
        assert recorder.count == 0
        record(recorder, 6)
        recorder.end(success=False)
        recorder.redo()
        assert recorder.count == 0
        recorder.step(env.hold_action())
        recorder.redo()
        for _ in range(3):
            recorder.step(env.expert_action())
        recorder.end(success=True)
        with pytest.raises(DatasetRejected, match="no episode is running"):
            recorder.step(env.hold_action())
    dataset = Dataset(tmp_path / "set")
    assert [len(episode) for episode in dataset] == [3]
    assert dataset[0].metadata == {"success": True, "seed": 6, "fault": ""}
    assert check(dataset) == []


def test_folder_continues_and_rejects_other_environments(env, tmp_path):
    recorded(env, tmp_path / "set")
    dataset = recorded(env, tmp_path / "set", 1)
    assert len(dataset) == 3
    assert check(dataset) == []
    with pytest.raises(DatasetRejected, match="arms"):
        EpisodeRecorder(CellEnv("reach_two", rate=30.0), tmp_path / "set", instruction="")
    with pytest.raises(DatasetRejected, match="fps"):
        EpisodeRecorder(CellEnv("reach", rate=20.0), tmp_path / "set", instruction="")
    with pytest.raises(DatasetRejected, match="arms"):
        replay(dataset, 0, CellEnv("reach_two", rate=30.0))
    with pytest.raises(ConfigurationError, match="whole numbers"):
        EpisodeRecorder(CellEnv("reach", rate=12.5), tmp_path / "half", instruction="")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "letter.txt").write_text("mine")
    with pytest.raises(DatasetRejected, match="not a data set"):
        EpisodeRecorder(env, tmp_path / "else", instruction="")
    assert len(Dataset(tmp_path / "set")) == 3


def test_truncated_files_are_reported(env, tmp_path, capsys):
    dataset = recorded(env, tmp_path / "set")
    path = data_file(dataset.folder, 1)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DatasetRejected, match=r"file-001\.parquet: "):
        dataset[1]
    assert len(dataset[0]) == 12
    assert main(["dataset", "check", str(dataset.folder)]) == 1
    assert "file-001.parquet" in capsys.readouterr().err
    (dataset.folder / "meta/info.json").write_text('{"codebase_version": "v2.1"}')
    with pytest.raises(DatasetRejected, match=r"allowed v3\.0"):
        Dataset(dataset.folder)
    assert main(["dataset", "stats", str(tmp_path / "none")]) == 1
    for within in ("nan", "-1", "0"):
        with pytest.raises(SystemExit):
            main(["dataset", "replay", str(dataset.folder), "--tolerance", within])


def test_truncated_statistics_passed_check(env, tmp_path):
    dataset = recorded(env, tmp_path / "set", 1)
    path = dataset.folder / "meta" / "stats.json"
    path.write_bytes(path.read_bytes()[:100])
    assert [fault for fault in check(dataset) if "stats.json: " in fault]


KILLED = """
import os, sys
from multipanda_py.learning.datasets import EpisodeRecorder
from multipanda_py.learning.gym import CellEnv
env = CellEnv("reach", rate=30.0)
recorder = EpisodeRecorder(env, sys.argv[1], instruction="reach")
for seed in (0, 1):
    recorder.start_episode(seed)
    for _ in range(4):
        recorder.step(env.expert_action())
    if seed == 0:
        recorder.end()
os.kill(os.getpid(), 9)
"""


@pytest.mark.long
def test_crash_loses_only_running_episode(env, tmp_path):
    folder = tmp_path / "set"
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=os.environ, timeout=60)
    assert done.returncode == -9
    dataset = Dataset(folder)
    assert [len(episode) for episode in dataset] == [4]
    assert any("was interrupted" in fault for fault in check(dataset))
    # A crash between the data and the metadata leaves a file like this one.
    left = data_file(folder, 1)
    left.write_bytes(data_file(folder, 0).read_bytes())
    assert any("file-001" in fault for fault in check(dataset))
    assert check(recorded(env, folder, 1)) == []
    assert len(Dataset(folder)) == 2


def test_images_are_videos_with_one_image_per_frame(tmp_path, capsys):
    env = CellEnv("push", rate=20.0, cameras={"overview": (64, 96)})
    with EpisodeRecorder(env, tmp_path / "set", instruction="push") as recorder:
        record(recorder, 0, 5)
        recorder.end()
    env.close()
    dataset = Dataset(tmp_path / "set")
    video = video_file(dataset.folder, "observation.images.overview", 0)
    assert count_frames(video) == 5
    assert check(dataset) == []
    assert main(["dataset", "check", str(dataset.folder)]) == 0
    assert main(["dataset", "stats", str(dataset.folder)]) == 0
    assert "5 frames" in capsys.readouterr().out
    whole = video.read_bytes()
    middle = whole.index(b"mdat") + len(whole) // 4
    damaged = bytes(0xA5 ^ one for one in whole[middle : middle + 200])
    video.write_bytes(whole[:middle] + damaged + whole[middle + 200 :])
    assert count_frames(video) == 5
    assert main(["dataset", "check", str(dataset.folder)]) == 1, (
        "the file has its full length but damaged content"
    )
    assert f"{video}: " in capsys.readouterr().err
    video.write_bytes(whole[:1000])
    assert any("possibly truncated" in fault for fault in check(dataset))


def test_second_recorder_removed_running_episode_of_first(tmp_path):
    with (
        CellEnv("reach", rate=20.0) as env,
        EpisodeRecorder(env, tmp_path / "set", instruction="go") as one,
    ):
        one.start_episode(0)
        one.step(env.hold_action())
        with pytest.raises(DatasetRejected, match=r"\bset: .*\bclose\(\)"):
            EpisodeRecorder(env, tmp_path / "set", instruction="go")
        assert one.end() == 0
        one.close()
        with pytest.raises(DatasetRejected, match=r"the recorder is closed"):
            one.start_episode(1)
        with EpisodeRecorder(env, tmp_path / "set", instruction="go") as other:
            assert other.count == 1


@pytest.mark.parametrize("goes", ["renamed", "removed", "emptied", "without numbers"])
def test_episodes_of_moved_folder_were_saved_elsewhere(env, tmp_path, goes):
    folder = tmp_path / "set"
    recorder = EpisodeRecorder(env, folder, instruction="reach the point")
    record(recorder, 0)
    recorder.end()
    record(recorder, 1)
    if goes == "renamed":
        folder.rename(tmp_path / "other")
    elif goes == "removed":
        shutil.rmtree(folder)
    else:
        shutil.rmtree(folder / ("meta" if goes == "emptied" else "data"))
    for act in (recorder.end, recorder.start_episode, recorder.redo):
        with pytest.raises(DatasetRejected, match=r"\bset: "):
            act()
    recorder.close()
    if goes == "renamed":
        assert len(Dataset(tmp_path / "other")) == 1
        assert len(recorded(env, tmp_path / "other")) == 3


def test_file_as_folder_and_truncated_metadata_are_rejected(tmp_path):
    with CellEnv("reach", rate=20.0) as env:
        (tmp_path / "file").touch()
        with pytest.raises(DatasetRejected, match=r"\bfile: "):
            EpisodeRecorder(env, tmp_path / "file", instruction="go")
        with EpisodeRecorder(env, tmp_path / "set", instruction="go"):
            pass
    (tmp_path / "set" / "meta" / "multipanda.json").write_text("{}")
    with pytest.raises(DatasetRejected, match=r"multipanda\.json.* task, control"):
        Dataset(tmp_path / "set")


@pytest.mark.parametrize("lost", [[0], [1], [2], [0, 1, 2]])
def test_episodes_without_metadata_were_removed_and_overwritten(env, tmp_path, lost, capsys):
    folder = recorded(env, tmp_path / "set", 3).folder
    for number in lost:
        episode_file(folder, number).unlink()
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DatasetRejected, match=rf"file-00{lost[0]}\.parquet: "):
        EpisodeRecorder(env, folder, instruction="reach")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept
    assert main(["dataset", "check", str(folder)]) == 1
    reported = capsys.readouterr().err
    assert f"file-00{lost[0]}.parquet: is missing" in reported
    assert "removes it" not in reported


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "allowed a JSON object"), ("NaN", "allowed a JSON object"),
        ("[" * 100_000, "not JSON"), (None, "features: allowed a map"),
        ({"features": [1]}, "features: allowed a map"),
        ({"fps": "x"}, "fps: got 'x', allowed whole numbers of 1 or more"),
        ({"fps": 0}, "fps: got 0"), ({"total_episodes": None}, "total_episodes: got None"),
    ],
)  # fmt: skip
def test_metadata_of_wrong_shape_raised_python_errors(env, tmp_path, content, message, capsys):
    folder = recorded(env, tmp_path / "set", 1).folder
    info = folder / "meta" / "info.json"
    if not isinstance(content, str):
        known = json.loads(info.read_text()) | (content or {})
        if content is None:
            del known["features"]
        content = json.dumps(known)
    info.write_text(content)
    for verb in ("check", "stats", "replay"):
        assert main(["dataset", verb, str(folder)]) == 1
        reported = capsys.readouterr().err
        assert message in reported
        assert reported.count("\n") == 1
    with pytest.raises(DatasetRejected, match=r"info\.json"):
        EpisodeRecorder(env, folder, instruction="reach")


def test_invalid_seeds_successes_and_instructions_were_accepted(env, tmp_path):
    for words in (None, 3, "\ud800"):
        with pytest.raises(DatasetRejected, match=r"^instruction: "):
            EpisodeRecorder(env, tmp_path / "set", instruction=words)
    with EpisodeRecorder(env, tmp_path / "set", instruction="reach") as recorder:
        for seed in ("x", 1.5, -1):
            with pytest.raises(DatasetRejected, match=r"\bseed: .* 0\b"):
                recorder.start_episode(seed)
        record(recorder, np.int64(4), 1)
        for success in ("no", 2, [True]):
            with pytest.raises(DatasetRejected, match=r"\bsuccess: .*True.*False.*None"):
                recorder.end(success)
        recorder.end(np.True_)
    assert Dataset(tmp_path / "set")[0].metadata == {"success": True, "seed": 4, "fault": ""}


def test_empty_video_printed_encoder_messages(tmp_path, capfd, caplog):
    video = EpisodeVideoWriter(tmp_path / "film.mp4", 64, 96, 30)
    video.close()
    assert capfd.readouterr().err == ""
    assert caplog.text == ""
