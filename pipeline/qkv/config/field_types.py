"""The types that a field of the schema allows."""

import types
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic.fields import FieldInfo


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Returns the types that a union allows; a type that is no union is its only alternative."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def item_of_list(annotation: Any) -> Any:
    """Returns the type of the items of the list that is among the types of a field."""
    kinds = (get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in alternatives(annotation))
    return next(get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple)


def tags_of_lists(field: FieldInfo) -> list[str]:
    """Returns the tags of lists among the types that a field allows."""
    tagged = (get_args(kind) for kind in alternatives(field.annotation) if get_origin(kind) is Annotated)
    return [
        note.tag for kind, *notes in tagged for note in notes if isinstance(note, Tag) and get_origin(kind) is tuple
    ]


def is_section(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Returns whether a type is a section of settings."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)
