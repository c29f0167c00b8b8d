"""The package `sundog.serve`: its names come with their first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sundog import serve


def test_importing_serve_imports_none_of_the_packages_that_it_needs() -> None:
    code = (
        "import sys; from sundog import serve; "
        "print([name for name in ('asyncio', 'pydantic', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_program_that_imports_starlette_alone_finds_its_requests_where_it_defines_a_deployment() -> None:
    code = (
        "import starlette; from sundog import serve\n"
        "@serve.deployment\n"
        "def app(request: starlette.requests.Request) -> str: return 'ok'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", serve.__all__)
def test_every_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(serve, name).__name__.endswith(name.lstrip("_"))
    assert name in dir(serve)


def test_a_name_that_is_not_there_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"'sundog\.serve' has no attribute 'nothing'"):
        _ = serve.nothing


def test_decorators_stay_what_they_are_when_the_modules_of_their_names_are_imported() -> None:
    code = (
        "import sundog.serve.deployment, sundog.serve.ingress; from sundog import serve; "
        "print(callable(serve.deployment), callable(serve.ingress))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_http_options_that_are_no_options_are_refused_in_one_sentence() -> None:
    with pytest.raises(TypeError, match=r"http_options takes a dict or HTTPOptions, not 3\."):
        serve.start(http_options=3)  # type: ignore[arg-type]
