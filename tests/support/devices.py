"""Devices that are not there: copies between a GPU and the host's memory, as the kernels that TensorFlow has registered
tell which of their inputs and outputs they keep in the host's; pretended GPUs, and sizes of arrays."""

import math
from collections import Counter
from functools import cache
from types import SimpleNamespace

import tensorflow as tf
from tensorflow.python.framework.kernels import get_registered_kernels_for_op

HOST, DEVICE, HANDLE = "host", "device", "handle"
BOOKKEEPING = {"Placeholder", "NoOp", "_Arg", "_Retval"}
CALLS = {"PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf", "Case"}


@cache
def gpu_kernels(kind):
    """The kernels for GPUs of a kind of operation."""
    return [kernel for kernel in get_registered_kernels_for_op(kind).kernel if kernel.device_type in ("GPU", "DEFAULT")]


def kernel_of(operation):
    """The kernel that a GPU would run, or None."""
    return next((kernel for kernel in gpu_kernels(operation.type) if _fits(kernel, operation)), None)


def _fits(kernel, operation):
    for constraint in kernel.constraint:
        found = operation.get_attr(constraint.name)
        types = found if isinstance(found, list) else [found]
        if not {one.as_datatype_enum for one in types} <= set(constraint.allowed_values.list.type):
            return False
    return True


def _places(operation, arguments, tensors):
    """Where each tensor is expected or left."""
    if operation.type in CALLS | BOOKKEEPING:  # functions take 32-bit integers in the host's memory
        return [_place(tensor, tensor.dtype.name == "int32") for tensor in tensors]
    kernel = kernel_of(operation)
    if kernel is None:
        return [_place(tensor, True) for tensor in tensors]
    places = []
    for argument in arguments:
        count = operation.get_attr(argument.number_attr) if argument.number_attr else 1
        count = len(operation.get_attr(argument.type_list_attr)) if argument.type_list_attr else count
        places += [argument.name in kernel.host_memory_arg] * count
    return [_place(tensor, on_host) for tensor, on_host in zip(tensors, places, strict=True)]


def _place(tensor, on_host):
    return HANDLE if tensor.dtype.name in ("resource", "variant") else HOST if on_host else DEVICE


def operations_of(function):
    """All operations of a concrete function, those of the functions that it calls included."""
    graphs, seen = [function.graph], set()
    while graphs:
        graph = graphs.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        yield from graph.get_operations()
        graphs += _called(graph)


def _called(graph):
    for operation in graph.get_operations():
        for attribute in operation.node_def.attr.values():
            names = [attribute.func.name, *(one.name for one in attribute.list.func)]
            for name in filter(None, names):
                inner = graph._get_function(name)
                if inner is not None and getattr(inner, "graph", None) is not None:
                    yield inner.graph


def without_kernels(function):
    """The kinds of operation that no GPU could run."""
    return {
        f"{one.type}({one.inputs[0].dtype.name if one.inputs else ''})"
        for one in operations_of(function)
        if one.type not in CALLS | BOOKKEEPING and kernel_of(one) is None
    }


def copies_to_host(function, constants=False):
    """How often a tensor is copied from the device to the host's memory, by producer and consumer."""
    found = Counter()
    for operation in operations_of(function):
        wanted = _places(operation, operation.op_def.input_arg, list(operation.inputs))
        for tensor, place in zip(operation.inputs, wanted, strict=True):
            source = tensor.op
            left = _places(source, source.op_def.output_arg, list(source.outputs))[tensor.value_index]
            if (left, place) == (DEVICE, HOST) and (source.type == "Const") == constants:
                found[f"{source.type}({tensor.dtype.name}) -> {operation.type}"] += 1
    return found


def largest_array_behind(result, layer, query, key, value, mask):
    """The number of elements of the largest array that one of a mechanism's results is computed from.

    Args:
        result: 0 for the context, 1 for the weights.
        layer: the mechanism.
        query, key, value, mask: shapes and types of its arguments, all known.
    """
    graph = tf.function(lambda *x: layer(*x[:3], mask=x[3])).get_concrete_function(query, key, value, mask)
    waiting, seen = [graph.outputs[result].op], set()
    largest = 0
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            waiting += [tensor.op for tensor in operation.inputs]
            sizes = [
                math.prod(x.shape) for x in operation.outputs if x.dtype != tf.resource and x.shape.is_fully_defined()
            ]
            largest = max([largest, *sizes])
    return largest


def pretend_gpus(monkeypatch, *capabilities, name="NVIDIA Test"):
    """Makes TensorFlow see GPUs of these compute capabilities; None for another maker's. Returns what was made visible
    since: a list that `choose_devices` fills."""
    gpus = [SimpleNamespace(name=f"/physical_device:GPU:{i}", device_type="GPU") for i in range(len(capabilities))]
    visible = list(gpus)
    of_device = dict(zip((gpu.name for gpu in gpus), capabilities, strict=True))

    def details(device):
        capability = of_device[device.name]
        return {"device_name": name, "compute_capability": capability} if capability else {}

    def set_visible(devices, kind):
        assert kind == "GPU"
        visible[:] = devices

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: list(gpus))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: list(visible))
    monkeypatch.setattr(tf.config, "set_visible_devices", set_visible)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    return visible
