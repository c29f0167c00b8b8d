"""When it happens: a ref was pickled by hand, or captured by a remote function, while
`allow_out_of_band_object_ref_serialization=0`. By default this is
allowed, and the object is kept until shutdown, as sundog cannot know when the pickled bytes are gone. (The class is
spelt as in Ray.)

What to do: pass the ref to a task or actor, return it, or `put()` what contains it.
"""

from __future__ import annotations

from sundog.exceptions import OufOfBandObjectRefSerializationException

RAISES = OufOfBandObjectRefSerializationException


def happen() -> None:
    import pickle

    import sundog as ray

    ray.init(num_cpus=1, _system_config={"allow_out_of_band_object_ref_serialization": False})
    pickle.dumps(ray.put("a value"))
