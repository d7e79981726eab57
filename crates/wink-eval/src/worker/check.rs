//! What cannot work is said before anything runs, by name and line.

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Parameter, Stmt};
use ruff_source_file::LineIndex;
use ruff_text_size::{Ranged, TextSize};

/// Modules that only compute.
const ALLOWED: &[&str] = &[
    "base64",
    "binascii",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
    "unicodedata",
];

/// What to do without the others.
pub(super) const MODULES: &str = "Only base64, binascii, collections, dataclasses, datetime, functools, itertools, \
json, math, re, typing and unicodedata can be imported; files come and go by `reads` and `writes`.";

/// Whether the program is one that can be run here.
pub(super) fn check(code: &str) -> Result<(), String> {
    let index = LineIndex::from_source_text(code);
    let line = |at: TextSize| index.line_index(at);
    let parsed = match ruff_python_parser::parse_module(code) {
        Ok(parsed) => parsed,
        Err(error) => {
            return Err(format!("line {}: SyntaxError: {}", line(error.location.start()), error.error));
        }
    };
    let mut finder = Finder::default();
    finder.visit_body(parsed.suite());
    let Finder { mut found, calls, own } = finder;
    // Whoever has an `open` of their own may call it.
    let calls = calls.into_iter().filter(|(_, name, _)| !own.contains(name));
    found.extend(calls.map(|(at, name, instead)| (at, format!("{name}(): {instead}"))));
    match found.into_iter().min() {
        Some((at, text)) => Err(format!("line {}: {text}", line(at))),
        None => Ok(()),
    }
}

/// Finds what is not there.
#[derive(Default)]
struct Finder<'a> {
    found: Vec<(TextSize, String)>,
    /// Calls of functions that are not there, and what to do instead.
    calls: Vec<(TextSize, &'a str, &'static str)>,
    /// Names that the program gives to things of its own.
    own: BTreeSet<&'a str>,
}

impl<'a> Finder<'a> {
    fn find(&mut self, at: &impl Ranged, text: String) {
        self.found.push((at.start(), text));
    }

    fn module(&mut self, at: &impl Ranged, name: &str) {
        let top = name.split('.').next().unwrap_or_default();
        if ALLOWED.contains(&top) {
            return;
        }
        let what = match top {
            "os" | "pathlib" | "shutil" | "glob" | "tempfile" | "io" => "there are no files here",
            "socket" | "urllib" | "http" | "requests" | "httpx" | "aiohttp" | "ssl" => {
                "there is no network here"
            }
            "subprocess" | "multiprocessing" | "threading" | "signal" => {
                "there are no processes or threads here"
            }
            "time" | "random" | "secrets" | "sys" | "asyncio" => "there is no clock, chance or system here",
            _ => "there are no other modules here",
        };
        self.find(at, format!("module '{name}' cannot be imported: {what}. {MODULES}"));
    }
}

impl<'a> Visitor<'a> for Finder<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => import.names.iter().for_each(|alias| self.module(import, &alias.name)),
            Stmt::ImportFrom(import) => match &import.module {
                Some(module) if import.level == 0 => self.module(import, module),
                _ => self.find(import, format!("there is no package to import from. {MODULES}")),
            },
            Stmt::FunctionDef(function) => {
                self.own.insert(function.name.as_str());
            }
            Stmt::Match(found) => {
                self.find(found, "`match` is not supported here; use `if` and `elif`".to_owned());
            }
            Stmt::Delete(found) => {
                self.find(found, "`del` is not supported here; assign None, or use .pop()".to_owned());
            }
            Stmt::TypeAlias(found) => {
                self.find(
                    found,
                    "`type` aliases are not supported here; assign the type to a name".to_owned(),
                );
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.own.insert(parameter.name.as_str());
        visitor::walk_parameter(self, parameter);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Yield(found) => {
                self.find(found, "`yield` is not supported here; append to a list and return it".to_owned());
            }
            Expr::YieldFrom(found) => {
                self.find(
                    found,
                    "`yield from` is not supported here; extend a list and return it".to_owned(),
                );
            }
            Expr::Name(name) if name.ctx.is_store() => {
                self.own.insert(name.id.as_str());
            }
            Expr::Call(call) => {
                if let Expr::Name(name) = &*call.func {
                    let instead = match name.id.as_str() {
                        "open" => "files cannot be opened here; declare them in `reads` and `writes`",
                        "input" => "there is nobody to ask here; put the value into the code",
                        "eval" | "exec" | "compile" => "code cannot be made at run time here; write it out",
                        "__import__" => "modules are imported with `import` only",
                        _ => "",
                    };
                    if !instead.is_empty() {
                        self.calls.push((call.start(), name.id.as_str(), instead));
                    }
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}
