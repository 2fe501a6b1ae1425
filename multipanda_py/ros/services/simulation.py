# SPDX-License-Identifier: Apache-2.0
"""Services of ``simulation_interfaces``: pause and step, move, spawn and delete objects."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from geometry_msgs.msg import Vector3
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import (
    GetEntityState,
    GetSimulationState,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)

from multipanda_py.cell import Cell
from multipanda_py.cell.scene_editor import SCENE_CHANGE_TIMEOUT, SceneChangeRequest
from multipanda_py.config.describe import movable_objects
from multipanda_py.exceptions import (
    LoopTimeout,
    MultipandaError,
    SimulationRejected,
    TargetRejected,
    UnknownName,
)
from multipanda_py.ros.node.conversions import WORLD, pose_in_world, write_pose
from multipanda_py.ros.node.deferred_responses import Work, until
from multipanda_py.ros.node.guard import GuardedNode

try:
    from simulation_interfaces.msg import Bounds, Spawnable
    from simulation_interfaces.srv import DeleteEntity, GetSpawnables, SpawnEntity
except ImportError:  # Not every ROS distribution has these interfaces.
    SpawnEntity = None

MISSING_MESSAGE = (
    "spawn_entity, delete_entity and get_spawnables are not offered: the installed "
    "simulation_interfaces has no SpawnEntity. Update it, or recreate the environment"
)
STEP_TIMEOUT = 2.0
"""Time without a cycle after which a step has failed [s]."""


class SimulationServices:
    """Services ``{get,set}_simulation_state``, ``step_simulation``, ``{get,set}_entity_state``.

    Entities are the objects of the cell file that have a mass and are present in the scene. Poses
    are in ``world``. A pose inside an arm is rejected.

    Args:
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
        if SpawnEntity is None:
            node.get_logger().warning(MISSING_MESSAGE)
        else:
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
            yield from self._wait_for_cycle(self._world.pause(), response.result)
            return
        else:
            response.result.result = Result.RESULT_FEATURE_UNSUPPORTED
            response.result.error_message = f"state: got {desired}, allowed 1 or 2 (play, pause)"
            return
        response.result.result = Result.RESULT_OK

    def _step(self, request: Any, response: Any) -> Work:
        try:
            goal = self._world.request_steps(request.steps)
        except SimulationRejected as error:
            refuse(response.result, Result.RESULT_INCORRECT_STATE, error)
            return
        yield from self._wait_for_cycle(goal, response.result)

    def _wait_for_cycle(self, last_cycle: int, result: Any) -> Work:
        before, since = self._world.cycles, time.monotonic()
        while (now := self._world.cycles) < last_cycle:
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > STEP_TIMEOUT:
                result.result = Result.RESULT_OPERATION_FAILED
                result.error_message = (
                    f"at cycle {now} no cycle ran for {STEP_TIMEOUT:g} s; "
                    f"the step ends at cycle {last_cycle}"
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
            pending = cell.request_object_pose(
                request.entity, target, (speed.x, speed.y, speed.z, *own)
            )
            yield from until_entered(cell, pending)
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except MultipandaError as error:
            refuse(result, SetEntityState.Response.INVALID_POSE, error)
        else:
            result.result = Result.RESULT_OK


def refuse(result: Any, code: int, error: Exception) -> None:
    """Fill in a message ``simulation_interfaces/Result`` of a failed request."""
    result.result, result.error_message = code, str(error)


def until_entered(cell: Cell, request: SceneChangeRequest) -> Work:
    """Wait until the loop has moved, spawned or deleted an object.

    Raises:
        SimulationRejected: If the loop rejects the request.
        LoopTimeout: If the loop does not answer in time.
    """
    yield from until(
        cell,
        lambda: cell.scene_change_done(request) or None,
        f"the request for {request.object_name}",
        # A paused loop answers within this timeout, too.
        SCENE_CHANGE_TIMEOUT,
        lambda: cell.cancel_scene_change(request),
    )


class _Refused(Exception):
    """Rejected request, with the result code of the response."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class SpawnServices:
    """Services ``spawn_entity``, ``delete_entity`` and ``get_spawnables``.

    Entities are the objects of the cell file that have a mass, by the names in the file. Absent
    ones can be spawned.

    Args:
        cell: Cell whose arms are all simulated.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._movable = cell, movable_objects(cell.config)
        node.serve(SpawnEntity, "spawn_entity", self._spawn)
        node.serve(DeleteEntity, "delete_entity", self._delete)
        node.create_service(GetSpawnables, "get_spawnables", self._list)

    def _spawn(self, request: Any, response: Any) -> Work:
        result = response.result
        try:
            obj = self._selected_object(request)
            header = request.initial_pose.header
            pose = pose_in_world(header.frame_id, request.initial_pose.pose)
            yield from until_entered(self._cell, self._cell.request_spawn(obj, pose))
        except _Refused as error:
            refuse(result, error.code, error)
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except (SimulationRejected, TargetRejected) as error:
            refuse(result, SpawnEntity.Response.INVALID_POSE, error)
        else:
            result.result, response.entity_name = Result.RESULT_OK, obj

    def _delete(self, request: Any, response: Any) -> Work:
        result = response.result
        try:
            yield from until_entered(self._cell, self._cell.request_delete(request.entity))
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except SimulationRejected as error:
            is_absent = request.entity in self._cell.spawnable
            code = Result.RESULT_NOT_FOUND if is_absent else Result.RESULT_INCORRECT_STATE
            refuse(result, code, error)
        else:
            result.result = Result.RESULT_OK

    def _selected_object(self, request: Any) -> str:
        # Since version 2.0 of the interfaces, ``entity_resource`` has ``uri`` and
        # ``resource_string``.
        resource = getattr(request, "entity_resource", request)
        if resource.resource_string:
            raise _Refused(
                SpawnEntity.Response.UNSUPPORTED_FORMAT,
                "resource_string: got a description, allowed none. Objects are defined in the "
                "cell file, see get_spawnables",
            )
        if request.entity_namespace:
            raise _Refused(
                SpawnEntity.Response.NAMESPACE_INVALID,
                f"entity_namespace: got {request.entity_namespace!r:.60}, allowed none, "
                "because objects have no ROS interfaces",
            )
        obj = str(resource.uri or request.name)
        if not obj:
            raise _Refused(
                SpawnEntity.Response.NO_RESOURCE,
                "uri: missing, allowed the name of an absent object",
            )
        if obj not in self._movable:
            raise UnknownName("movable object", obj, tuple(self._movable))
        may_rename = request.allow_renaming
        if request.name not in ("", obj) and not may_rename:
            raise _Refused(
                SpawnEntity.Response.NAME_INVALID,
                f"name: got {request.name!r:.60}, allowed {obj}, as in the cell file. Use "
                "that name or set allow_renaming",
            )
        if obj in self._cell.spawnable:
            return obj
        other = self._cell.spawnable_like(obj) if may_rename else ""
        if not other:
            like = (
                "no similar object is absent" if may_rename else "set allow_renaming for another"
            )
            raise _Refused(
                SpawnEntity.Response.NAME_NOT_UNIQUE,
                f"name: got {obj}, which is in the scene; {like}",
            )
        return other

    def _list(self, request: Any, response: Any) -> Any:
        if request.sources:
            unknown = ", ".join(request.sources)
            response.result.error_message = (
                f"sources: got {unknown:.200}, allowed none; the cell is the only source"
            )
        for name in self._cell.spawnable:
            obj = self._cell.config.objects[name]
            item = Spawnable(description=f"{obj.shape} of {obj.mass:g} kg")
            getattr(item, "entity_resource", item).uri = name
            radius = float(np.linalg.norm(obj.size))
            if obj.shape == "capsule":
                radius = sum(obj.size)
            item.spawn_bounds.type = Bounds.TYPE_SPHERE
            item.spawn_bounds.points = [Vector3(), Vector3(x=radius)]
            response.spawnables.append(item)
        response.result.result = Result.RESULT_OK
        return response
