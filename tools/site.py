"""What mkdocs.yml asks for beside the pages of docs/: pages made from the code, and files from outside docs/.

Loaded by MkDocs as a hook. The command line's reference is made from the commands themselves; CHANGELOG.md
and others of the project's root become pages; a link to any other file copies that file into the site.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Pages of the site that are files of the project's root.
ROOT_PAGES = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
INLINE = re.compile(r"(?<!<pre>)(?<!<pre><span></span>)<code>([^<]*-[^<]*)</code>")
LONG = 26  # letters that a phone shows in one line
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the pages of folders that the navigation names, and ?pages that exist; the rest come last."""
    docs = Path(config.docs_dir)
    named: set[str] = set()
    made = {page for name, page in ROOT_PAGES.items() if (ROOT / name).exists()}

    def filled(entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                ((title, inner),) = entry.items()
                found.append({title: filled(inner)} if isinstance(inner, list) else entry)
                named.update([inner] if isinstance(inner, str) else [])
            elif entry.startswith("?"):
                found += [entry[1:]] if (docs / entry[1:]).exists() or entry[1:] in made else []
                named.add(entry[1:])
            elif entry.endswith("/"):
                inside = [path.relative_to(docs).as_posix() for path in sorted((docs / entry).glob("*.md"))]
                found += [path for path in inside if path not in named]
                named.update(inside)
            else:
                found.append(entry)
                named.add(entry)
        return found

    config.nav = filled(config.nav or [])
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    if rest := sorted(pages - named):
        config.nav.append({"More": rest})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from code and from files of the project's root."""
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    for name, page in ROOT_PAGES.items():
        if page != "index.md" and (ROOT / name).exists():
            files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside docs/ into links inside the site."""
    source = page.file.src_uri
    root_name = next(
        (name for name, made in ROOT_PAGES.items() if made == source and made != "index.md"), None
    )
    here = posixpath.dirname(root_name or f"docs/{source}")

    def inside(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, found[2]))
        if target in ROOT_PAGES:
            target = ROOT_PAGES[target]
        elif target.startswith("docs/"):
            target = target.removeprefix("docs/")
        elif (ROOT / target).is_file():
            if files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
        else:
            return found[0]
        return f"{found[1]}{posixpath.relpath(target, posixpath.dirname(source) or '.')}{found[3]}"

    return LINK.sub(inside, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep the words of code in running text whole: a browser would break --keep behind its hyphens."""

    def whole(found: re.Match[str]) -> str:
        words = (
            f'<span class="whole">{word}</span>' if len(word) <= LONG else word
            for word in found[1].split(" ")
        )
        return f"<code>{' '.join(words)}</code>"

    return INLINE.sub(whole, html)


def commands_page() -> str:
    """Return the reference of the command line as Markdown."""
    from gmmatch.cli.commands import COMMANDS, load_command

    parts = [
        "# The command line\n",
        "Made from the commands themselves; `gmmatch COMMAND --help` shows the same.\n",
    ]
    for name in COMMANDS:
        parts.append(command_section(name, load_command(name)))
    return "\n".join(parts)


def command_section(name: str, command: Any) -> str:
    """Return what there is to know about one command."""
    said, _, examples = inspect.cleandoc(command.help or "").partition("Examples\n--------\n")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join(
        ["gmmatch", name, *((each.metavar or each.name.upper()) for each in arguments), "[OPTIONS]"]
    )
    lines = [f"## gmmatch {name}\n", said.strip(), "", f"```\n{usage}\n```\n"]
    for argument in arguments:
        lines.append(f"- **`{argument.metavar or argument.name.upper()}`**: {argument.help or ''}")
    panels: dict[str, list[Any]] = {}
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option)
    for panel, options in panels.items():
        lines += ["", f"**{panel}**", "", "| option | what it does |", "|---|---|"]
        lines += [option_row(option) for option in options]
    if shown := "\n".join(line.strip() for line in examples.splitlines() if line.strip()):
        lines += ["", "Examples:", "", "```", re.sub(r"\n(?!gmmatch)", " ", shown), "```"]
    return "\n".join(lines) + "\n"


def option_row(option: Any) -> str:
    """Return one row of the table of options."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.metavar:
        names += f" *{option.metavar}*"
    default = option.show_default if isinstance(option.show_default, str) else option.default
    shown = "" if option.is_flag or default is None or callable(default) else f" Default: `{default}`."
    return "| " + " | ".join(each.replace("|", "\\|") for each in (names, f"{option.help}{shown}")) + " |"
