import pytest


@pytest.fixture
def write(tmp_path):
    def file(content, name="text"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return file
