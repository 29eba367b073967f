import inspect

import pytest

import egmm
from egmm import belief


def test_the_package_exports_the_two_classes():
    assert egmm.CredalPartition is belief.CredalPartition
    assert egmm.FocalSets is belief.FocalSets


def test_all_is_sorted_and_complete():
    assert belief.__all__ == sorted(belief.__all__)
    public = {
        name
        for name, value in vars(belief).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
    }
    assert public == set(belief.__all__)


@pytest.mark.parametrize("name", belief.__all__)
def test_every_public_name_has_a_running_example(name):
    assert ">>>" in inspect.getdoc(getattr(belief, name))


@pytest.mark.parametrize("name", sorted(name for name in vars(belief.CredalPartition) if not name.startswith("_")))
def test_every_method_is_documented(name):
    documented = inspect.getdoc(vars(belief.CredalPartition)[name])
    assert documented
    is_property = isinstance(vars(belief.CredalPartition)[name], property)
    assert is_property or ">>>" in documented or ":meth:`save`" in documented
