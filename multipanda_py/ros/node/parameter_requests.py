# SPDX-License-Identifier: Apache-2.0
"""Services that set parameters, with checks of types and deferred answers.

Unlike these, the services of rclpy raise an error for an unknown type, and block the executor
until a parameter is applied.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rcl_interfaces.msg import ParameterType, ParameterValue, SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from multipanda_py.config.renamed_keys import renamed_key, renamed_parameter
from multipanda_py.exceptions import ParameterRejected, SettingsRejected, shortened
from multipanda_py.ros.compat.crisp import CrispNames
from multipanda_py.ros.node.deferred_responses import TimeSlice

Change = Generator[None, None, str]
"""Generator that yields until a change is answered. It returns the reason of a rejection, or an
empty string."""
WIDER_TYPES = {
    Parameter.Type.INTEGER: Parameter.Type.DOUBLE,
    Parameter.Type.INTEGER_ARRAY: Parameter.Type.DOUBLE_ARRAY,
}
"""Conversion of integers to floats, because ``ros2 param set`` sends 400 as an integer."""
MAX_REASONS = 10
"""Number of rejections of one request that are returned and logged in full."""
MAX_LATER_REASON = 200
"""Maximum length of further rejections [characters]."""
MAX_NAME = 200
"""Maximum length of a name for which similar names are searched [characters]."""
_REQUESTED = "not asked for yet"
_LAST_TYPE = ParameterType.PARAMETER_STRING_ARRAY


class ConfirmedParameters:
    """Parameters whose changes another component, such as a robot, must accept first.

    Args:
        change: Function that sends new values, by name, to the component; see :data:`Change`.
    """

    def __init__(self, change: Callable[[dict[str, Any]], Change]) -> None:
        self._change = change
        self._requested: dict[str, Any] = {}
        self._is_accepted = False

    def check(self, requested: dict[str, Any]) -> None:
        """Store requested values for :meth:`set`, and reject them until the component accepts.

        Raises:
            SettingsRejected: If the component has not accepted the values yet.
        """
        if not self._is_accepted:
            self._requested = requested
            raise SettingsRejected(_REQUESTED)

    def set(self, node: Node, parameters: list[Parameter[Any]]) -> Change:
        """Set parameters of a node if the component accepts them; see :data:`Change`."""
        self._requested = {}
        # rclpy rejects unknown and read-only parameters before it calls :meth:`check`.
        result = node.set_parameters_atomically(parameters)
        if result.successful or result.reason != _REQUESTED:
            return "" if result.successful else result.reason or "refused"
        reason = yield from self._change(self._requested)
        if reason:
            return reason
        self._is_accepted = True
        try:
            return str(node.set_parameters_atomically(parameters).reason)
        finally:
            self._is_accepted = False


class ParameterNode(Node):
    """Node whose parameters may have CRISP names, or need the consent of another component.

    Attributes:
        confirmed: Parameters whose changes another component must accept first, or None.
        other_names: CRISP names of its parameters, or None.
        same_values: Values that a client may set without an effect, by read-only parameter.
        logs_rejections: True if rejected changes are logged, for clients that do not show the
            reason.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.confirmed: ConfirmedParameters | None = None
        self.other_names: CrispNames | None = None
        self.same_values: dict[str, tuple[str, ...]] = {}
        self.logs_rejections = False
        super().__init__(name, **options)


def set_work(node: ParameterNode, request: Any, response: Any) -> Generator[None, None, None]:
    """Execute ``set_parameters`` or ``set_parameters_atomically``, and fill in the response."""
    if isinstance(request, SetParameters.Request):
        refused, part = 0, TimeSlice()
        for message in request.parameters:
            result = yield from _set_with_crisp_names(node, [message])
            refused += not result.successful
            if refused > MAX_REASONS:
                result.reason = result.reason[:MAX_LATER_REASON]
            response.results.append(result)
            yield from part.rest()
        results = response.results
    else:
        response.result = yield from _set_with_crisp_names(node, request.parameters)
        results = [response.result]
    if node.logs_rejections:
        reasons = [result.reason for result in results if not result.successful]
        for reason in reasons[:MAX_REASONS]:
            node.get_logger().warning(f"parameter rejected: {reason}")
        if len(reasons) > MAX_REASONS:
            node.get_logger().warning(f"{len(reasons) - MAX_REASONS} more parameters rejected")


def set_together(node: ParameterNode, values: Mapping[str, Any]) -> Change:
    """Set several parameters, or none if one of them is rejected; see :data:`Change`.

    Args:
        node: Node with the parameters.
        values: Numbers, texts or lists, by name of the parameter.
    """
    messages = []
    for name, value in values.items():
        try:
            messages.append(Parameter(name, value=value).to_parameter_msg())
        except (ParameterException, ValueError, TypeError):
            return f"{name}: got {value!r:.60}, allowed a number, a string or a list of one type"
    result = yield from _set_with_crisp_names(node, messages)
    return "" if result.successful else str(result.reason) or "refused"


def value_of(node: Node, names: CrispNames, name: str) -> Any:
    """Return the ``ParameterValue`` of a parameter; of type PARAMETER_NOT_SET if it is unknown.

    Args:
        node: Node with the parameter.
        names: CRISP names of its parameters.
        name: Own name or CRISP name of the parameter.
    """
    if node.has_parameter(name):
        return node.get_parameter(name).get_parameter_value()
    if not names.has(name):
        return ParameterValue()
    value = names.get(name, lambda own: node.get_parameter(own).value)
    return Parameter(name, value=value).get_parameter_value()


def _translate_crisp_names(node: Node, names: CrispNames, messages: Sequence[Any]) -> list[Any]:
    own_names: dict[str, Any] = {}
    pending: dict[str, Any] = {}
    for message in messages:
        value = Parameter.from_parameter_msg(message).value
        if not names.has(message.name, value):
            own_names[message.name] = message
            continue
        read = lambda own: pending.get(own, node.get_parameter(own).value)  # noqa: E731
        text = list(value) if isinstance(value, array) else value
        pending.update(names.to_own_parameters(message.name, text, read))
    for name, value in pending.items():
        own_names[name] = Parameter(name, value=value).to_parameter_msg()
    return list(own_names.values())


def _unknown_name_message(node: Node, name: str) -> str:
    known = sorted(node.get_parameters_by_prefix(""))
    if new := renamed_parameter(name, known) or renamed_key(name.split(".")):
        return f"{node.get_fully_qualified_name()}: {shortened(name)}: renamed to {new}"
    near = get_close_matches(name, known, cutoff=0.5) if len(name) <= MAX_NAME else []
    meant = f"near: {', '.join(near)}; " if near else ""
    return shortened(
        f"{node.get_fully_qualified_name()}: parameter {name!r} does not exist; {meant}"
        f"known: {', '.join(known)}"
    )


def _type_fault(node: Node, message: Any) -> str:
    # The message of rclpy would only show numbers of types.
    got, declared = Parameter.Type(message.value.type), node.get_parameter(message.name).type_
    if declared in (got, WIDER_TYPES.get(got), Parameter.Type.NOT_SET):
        return ""
    allowed = node.describe_parameter(message.name).additional_constraints
    path = f"{node.get_fully_qualified_name()}: {message.name}"
    text, hint = message.value.string_value, ""
    if text.startswith("["):  # ros2 param set sends mixed number types as a string.
        hint = " (a string: write all numbers with a decimal point, or none)"
    description = f"{text!r:.60}{hint}" if text else _kind(got)
    return shortened(f"{path}: got {description}, allowed {allowed or _kind(declared)}")


def _read_only_message(node: Node, requested: Parameter[Any]) -> str:
    stands, path = node.get_parameter(requested.name).value, node.get_fully_qualified_name()
    return (
        f"{path}: {requested.name}: got {requested.value!r:.60}, but it is read-only with value "
        f"{stands!r:.200}"
    )


def _kind(kind: Parameter.Type) -> str:
    return "nothing" if kind is Parameter.Type.NOT_SET else kind.name.lower().replace("_", " ")


def _has_value_already(node: ParameterNode, requested: Parameter[Any]) -> bool:
    # A file from ``ros2 param dump`` sets read-only parameters to their present values.
    if not node.describe_parameter(requested.name).read_only:
        return False
    if requested.value in node.same_values.get(requested.name, ()):
        return True
    stands, desired = node.get_parameter(requested.name).value, requested.value
    if isinstance(stands, (array, list)):
        return isinstance(desired, (array, list)) and list(stands) == list(desired)
    return type(stands) is type(desired) and bool(stands == desired)


def _set_with_crisp_names(
    node: ParameterNode, messages: Sequence[Any]
) -> Generator[None, None, SetParametersResult]:
    names = node.other_names
    if names is None or any(message.value.type > _LAST_TYPE for message in messages):
        return (yield from _set_declared(node, messages))
    try:
        own = _translate_crisp_names(node, names, messages)
    except ParameterRejected as error:
        return SetParametersResult(successful=False, reason=shortened(str(error)))
    result = yield from _set_declared(node, own)
    for message in messages if result.successful else ():
        value = Parameter.from_parameter_msg(message).value
        if names.has(message.name, value):
            names.keep(message.name, value)
        else:
            names.forget(message.name)
    return result


def _set_declared(
    node: ParameterNode, messages: Sequence[Any]
) -> Generator[None, None, SetParametersResult]:
    for message in messages:
        if not message.name:
            text = "name: is empty, allowed the name of a parameter"
            return SetParametersResult(successful=False, reason=text)
        if message.value.type > _LAST_TYPE:
            got = f"value.type: got {message.value.type}"
            text = f"{message.name}: {got}, allowed 0 to {_LAST_TYPE}"
            return SetParametersResult(successful=False, reason=shortened(text))
        if not node.has_parameter(message.name):
            return SetParametersResult(
                successful=False, reason=_unknown_name_message(node, message.name)
            )
        if reason := _type_fault(node, message):
            return SetParametersResult(successful=False, reason=reason)
    try:
        requested = [Parameter.from_parameter_msg(message) for message in messages]
        parameters = [
            parameter for parameter in requested if not _has_value_already(node, parameter)
        ]
        for parameter in parameters:
            if node.describe_parameter(parameter.name).read_only:
                return SetParametersResult(
                    successful=False, reason=_read_only_message(node, parameter)
                )
        if not parameters:
            return SetParametersResult(successful=True)
        if node.confirmed is None:
            return node.set_parameters_atomically(parameters)
        reason = yield from node.confirmed.set(node, parameters)
    except (ParameterException, ValueError, TypeError) as error:
        reason = str(error) or type(error).__name__
    return SetParametersResult(successful=not reason, reason=shortened(reason))
