# SPDX-License-Identifier: Apache-2.0
"""The driver of one arm that ROS 2 drives: a process between its topics and the loop.

Run as ``python -m multipanda_py.ros2_control.driver MEMORY STATE_EVENT TORQUE_EVENT JOINTS`` as
:mod:`multipanda_py.franka.driver` is, and speaks with the loop as that does.
"""

from __future__ import annotations

import os
from typing import NoReturn

from multipanda_py.drivers.entry import collect_for_good, connect_to_loop
from multipanda_py.drivers.priority import take_priority
from multipanda_py.drivers.refused import Refused
from multipanda_py.machine.realtime import SENDS_AGAIN, make_ordinary
from multipanda_py.ros2_control.driver_settings import TopicDriverSettings
from multipanda_py.ros2_control.effort_control import EffortControl
from multipanda_py.ros2_control.first_states import first_states
from multipanda_py.ros2_control.settings import EFFORT
from multipanda_py.ros2_control.topic_positions import TopicPositions

_SETTLING_TIME = 1.0  # what is collected once, and never again [s]


def kind_of_control(settings: TopicDriverSettings) -> type[EffortControl | TopicPositions]:
    """Return what commands the arm."""
    return EffortControl if settings.command_interface == EFFORT else TopicPositions


def main() -> NoReturn:
    """Run a driver. Thread: main."""
    loop = connect_to_loop()
    try:
        settings = TopicDriverSettings.from_json(loop.first_line())
        os.sched_setaffinity(0, settings.cpus)
        try:
            from multipanda_py.ros2_control.topics import Topics
        except ImportError as error:
            raise Refused(f"ROS 2 cannot be imported: {error}", final=True) from None
        warnings = take_priority(settings.priority, settings.peer)  # the middleware inherits it
        topics = Topics(settings)
        control = kind_of_control(settings)(
            loop, topics, first_states(topics, settings, loop), settings
        )
        make_ordinary(SENDS_AGAIN)  # they have begun, and have their names
    except Refused as error:
        loop.say(error=f"{error}", final=error.final)
        os._exit(1)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        loop.say(error=f"{type(error).__name__}: {error}", final=not isinstance(error, OSError))
        os._exit(1)
    loop.busy(_SETTLING_TIME)
    collect_for_good()
    loop.busy(0.0)
    loop.say(ok=True, warnings=warnings, model={})
    try:
        control.run()
        topics.close()
    except Exception as error:
        text = f"{type(error).__name__}: {error}; recover to start another driver"
        loop.say(fault="driver_error", text=f"{settings.peer}: {text}")
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
