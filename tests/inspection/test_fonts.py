"""Fonts that have a text's characters, wherever they are installed, or one line that says what to install."""

import warnings

import pytest
from matplotlib import font_manager

from qkv.inspection import fonts
from qkv.inspection.attention_figure import attention_figure
from qkv.inspection.heatmap import figure_as


@pytest.fixture
def only_matplotlibs(monkeypatch):
    """As on a machine where no fonts are installed but those that come with matplotlib."""
    own = [entry for entry in font_manager.fontManager.ttflist if "matplotlib" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(fonts, "_add_new_fonts", lambda: False)
    monkeypatch.setattr(fonts, "_reported", set())
    for cached in (fonts.has_character, fonts._face, fonts._fonts_with):
        cached.cache_clear()
    yield
    for cached in (fonts.has_character, fonts._face, fonts._fonts_with):
        cached.cache_clear()


def test_matplotlibs_font_is_enough_for_what_it_has(only_matplotlibs):
    assert fonts.fonts_for("▁the é ß Ж שלום مرحبا …\u200f\u2068") == [fonts.DEFAULT_FONT]


def test_any_installed_font_is_found_by_its_characters(only_matplotlibs):
    others = {name: set(fonts._face(name).get_charmap()) for name in fonts._families()}
    rare = sorted(others["STIXGeneral"] - others[fonts.DEFAULT_FONT])[:50]
    assert rare
    for code in rare:
        own, *found = fonts.fonts_for(f"a{chr(code)}")
        assert own == fonts.DEFAULT_FONT and len(found) == 1 and code in others[found[0]]


def test_a_script_without_a_font_is_told_once_with_what_to_install(only_matplotlibs, caplog, make_record):
    for text in ("猫吃", "猫苹果", "猫"):
        assert fonts.fonts_for(text) == [fonts.DEFAULT_FONT]
    (message,) = caplog.messages
    assert message.startswith("heat maps: no installed font has the CJK characters 吃猫, so boxes are drawn; ")
    assert "fonts-noto-cjk" in message
    caplog.clear()
    fonts.fonts_for("ខ្ញុំ")
    assert "KHMER" in caplog.text and "fonts-noto," in caplog.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure_as(attention_figure(make_record(0, source="猫")), "png")
    assert len(caplog.messages) == 1


def test_emoji_are_no_script_of_their_first_ones_name(only_matplotlibs, caplog):
    fonts.fonts_for("👩\u200d💻 👍🏽")
    (message,) = caplog.messages
    assert message.startswith("heat maps: no installed font has the emoji characters 🏽👍👩💻, so boxes are drawn; ")
    assert "fonts-symbola," in message


@pytest.mark.parametrize("name", ["Last Resort High-Efficiency", ".LastResort"])
def test_boxes_for_every_character_are_no_font(name, monkeypatch):
    boxes = font_manager.FontEntry(fname="boxes.ttf", name=name, size="scalable")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [boxes, *font_manager.fontManager.ttflist])
    assert name not in fonts._families()
    assert fonts._families()[fonts.DEFAULT_FONT].style == "normal"


def test_a_font_that_was_installed_after_matplotlib_had_looked_is_found(only_matplotlibs, monkeypatch):
    path = fonts._families()["STIXGeneral"].fname
    monkeypatch.undo()
    entries = [entry for entry in font_manager.fontManager.ttflist if "STIX" not in entry.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    fonts._add_new_fonts.cache_clear()
    assert fonts._add_new_fonts()
    assert "STIXGeneral" in fonts._families()
    fonts._add_new_fonts.cache_clear()
