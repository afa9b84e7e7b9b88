"""Devices that are not there: copies between a GPU and the host's memory, as the kernels that TensorFlow has registered
tell which of their inputs and outputs they keep in the host's; pretended GPUs, and sizes of arrays."""

import math
from collections import Counter
from functools import cache
from types import SimpleNamespace

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph
from tensorflow.python.framework.kernels import get_registered_kernels_for_op
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.grappler.cluster import Cluster

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
    if "CPU" in operation.device:
        return [_place(tensor, True) for tensor in tensors]
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


def optimised_operations(function):
    """All operations of a concrete function as TensorFlow would run it on a GPU: Grappler has folded, merged and
    pruned them."""
    device = "/job:localhost/replica:0/task:0/device:GPU:0"
    named = device_properties_pb2.NamedDevice(name=device)
    named.properties.type, named.properties.num_cores, named.properties.frequency = "GPU", 100, 1500
    named.properties.memory_size = 1 << 34
    named.properties.environment["architecture"] = "8.0"
    cluster = Cluster(devices=[named])
    settings = config_pb2.ConfigProto()
    settings.graph_options.rewrite_options.min_graph_nodes = -1
    graph = meta_graph_pb2.MetaGraphDef(graph_def=function.graph.as_graph_def(add_shapes=True))
    for node in graph.graph_def.node:
        node.device = node.device or device
    kept = [one.name for one in (*function.graph.outputs, *function.graph.control_outputs)]
    graph.collection_def["train_op"].node_list.value.extend(kept)
    optimised = tf_optimizer.OptimizeGraph(settings, graph, cluster=cluster, strip_default_attributes=False)
    functions = {one.signature.name: one for one in optimised.library.function}
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(optimised, name="")
    graphs, seen = [imported], set()
    while graphs:
        operations = graphs.pop().get_operations()
        yield from operations
        attributes = [value for one in operations if one.type in CALLS for value in one.node_def.attr.values()]
        for name in {value.func.name for value in attributes} & set(functions) - seen:
            seen.add(name)
            graphs.append(function_def_to_graph(functions[name]))


ON_HOST = {"Shape", "Size", "Rank", "BroadcastGradientArgs", "LoopCond"}
WITHOUT_WORK = {
    *("Const", "Placeholder", "Identity", "IdentityN", "Reshape", "ExpandDims", "Squeeze", "Bitcast", "StopGradient"),
    *("ReadVariableOp", "AssignVariableOp", "Switch", "Merge", "Enter", "Exit", "NextIteration"),
    *("EmptyTensorList", "TensorListReserve", "TensorListSetItem", "TensorListGetItem", "TensorListPushBack"),
    "TensorListPopBack",
}


def kernels_launched(operations):
    """How often a GPU starts a kernel, by kind of operation; copies between its memory and the host's are not counted.

    Operations on the host's numbers, such as shapes, and those that only pass a tensor on start none. A sum over no
    axes, as the gradient of a broadcast with unknown shapes has, passes its tensor on.
    """
    found = Counter()
    for operation in operations:
        if operation.type in ON_HOST | WITHOUT_WORK | CALLS | BOOKKEEPING:
            continue
        if operation.type == "Sum" and _behind(operation.inputs[1]).type == "BroadcastGradientArgs":
            continue
        if operation.type == "StridedSlice" and operation.inputs[1].shape == (1,):  # a part of the same memory
            continue
        arguments, tensors = operation.op_def.output_arg, list(operation.outputs)
        if not tensors:
            arguments, tensors = operation.op_def.input_arg, list(operation.inputs)
        if DEVICE in _places(operation, arguments, tensors):
            found[operation.type] += 1
    return found


def _behind(tensor):
    """The operation that computes a tensor, casts and copies left out."""
    while tensor.op.type in ("Identity", "Cast"):
        tensor = tensor.op.inputs[0]
    return tensor.op
