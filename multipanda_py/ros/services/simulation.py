# SPDX-License-Identifier: Apache-2.0
"""Services of ``simulation_interfaces`` to pause, step, read and modify the simulated world."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import (
    GetEntityState,
    GetSimulationState,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)

from multipanda_py.cell import Cell
from multipanda_py.exceptions import (
    LoopTimeout,
    MultipandaError,
    SimulationRefused,
    UnknownName,
)
from multipanda_py.ros.node.conversions import write_pose
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.entity_helpers import WORLD, pose_in_world, refuse, until_entered

MISSING_SERVICES = (
    "spawn_entity, delete_entity and get_spawnables are not offered: the installed "
    "simulation_interfaces has no SpawnEntity. Update it, or recreate the environment"
)
STEP_TIMEOUT = 2.0
"""Time without a cycle after which a step has failed [s]."""


class SimulationServices:
    """Services ``{get,set}_simulation_state``, ``step_simulation``, ``{get,set}_entity_state``.

    Entities are the objects of the cell file that have a mass and are present in the scene. Poses
    are in ``world``. A pose inside an arm is rejected, because the contact would throw the arm
    aside.

    Args:
        node: Node that offers the services.
        cell: Cell whose arms are all simulated.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._world = cell, cell.world
        node.create_service(GetSimulationState, "get_simulation_state", self._get_state)
        node.create_service(GetEntityState, "get_entity_state", self._get_entity)
        node.serve(SetSimulationState, "set_simulation_state", self._set_state)
        node.serve(StepSimulation, "step_simulation", self._step)
        node.serve(SetEntityState, "set_entity_state", self._set_entity)
        if find_spec("simulation_interfaces.srv._spawn_entity") is None:
            node.get_logger().warning(MISSING_SERVICES)
        else:
            from multipanda_py.ros.services.spawn import SpawnServices

            self._spawning = SpawnServices(node, cell)

    def _get_state(self, request: Any, response: Any) -> Any:
        paused = self._world.is_paused
        playing = SimulationState.STATE_PLAYING
        response.state.state = SimulationState.STATE_PAUSED if paused else playing
        response.result.result = Result.RESULT_OK
        return response

    def _set_state(self, request: Any, response: Any) -> Work:
        desired = request.state.state
        if desired == SimulationState.STATE_PLAYING:
            self._world.resume()
        elif desired == SimulationState.STATE_PAUSED:
            yield from self._wait(self._world.pause(), response.result)
            return
        else:
            response.result.result = Result.RESULT_FEATURE_UNSUPPORTED
            response.result.error_message = f"state: got {desired}, allowed 1 or 2 (play, pause)"
            return
        response.result.result = Result.RESULT_OK

    def _step(self, request: Any, response: Any) -> Work:
        try:
            goal = self._world.ask_steps(request.steps)
        except SimulationRefused as error:
            refuse(response.result, Result.RESULT_INCORRECT_STATE, error)
            return
        yield from self._wait(goal, response.result)

    def _wait(self, goal: int, result: Any) -> Work:
        """Wait until the loop has run ``goal`` cycles.

        Give up after ``STEP_TIMEOUT`` without a cycle.
        """
        before, since = self._world.cycles, time.monotonic()
        while (now := self._world.cycles) < goal:
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > STEP_TIMEOUT:
                result.result = Result.RESULT_OPERATION_FAILED
                result.error_message = (
                    f"at cycle {now} no cycle ran for {STEP_TIMEOUT:g} s; "
                    f"the step ends at cycle {goal}"
                )
                return
            yield
        result.result = Result.RESULT_OK

    def _get_entity(self, request: Any, response: Any) -> Any:
        objects = self._cell.objects()
        if request.entity not in objects:
            error = UnknownName("movable object", request.entity, tuple(objects))
            refuse(response.result, Result.RESULT_NOT_FOUND, error)
            return response
        response.state.header.frame_id = WORLD
        write_pose(response.state.pose, objects[request.entity])
        response.result.result = Result.RESULT_OK
        return response

    def _set_entity(self, request: Any, response: Any) -> Work:
        result, cell = response.result, self._cell
        try:
            target = pose_in_world(request.state.header.frame_id, request.state.pose)
            speed, spin = request.state.twist.linear, request.state.twist.angular
            # MuJoCo expects the angular velocity of a free body along the axes of that body.
            own = target.rotation.T @ (spin.x, spin.y, spin.z)
            pending = cell.ask_move(request.entity, target, (speed.x, speed.y, speed.z, *own))
            yield from until_entered(cell, pending)
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except MultipandaError as error:
            refuse(result, SetEntityState.Response.INVALID_POSE, error)
        else:
            result.result = Result.RESULT_OK
