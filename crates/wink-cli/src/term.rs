//! The terminal: colours and layout. Knows nothing of what is shown.
//!
//! Text is wrapped first and coloured after, so that colours never count as width. Whether colours are shown at all
//! is for the stream to decide: it strips them where they would not be understood.

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};

/// Prose has at most this many characters in a line, whatever the terminal: fewer than most have, and pleasant to read.
const WIDTH: usize = 80;

/// The space before everything that is not a heading.
const MARGIN: usize = 3;

/// The space between the columns of a table.
const GAP: usize = 2;

/// How much of a cell a row has that is not to be copied from there, also where there is no terminal to fit: whoever wrote it may
/// not have known when to stop.
const CELL: usize = 200;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default().bold();

/// A text in one style.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    text: String,
    style: Style,
    /// Not cut, however narrow the terminal: somebody wants to copy it.
    whole: bool,
}

/// A text in this style.
pub(crate) fn span(text: impl Into<String>, style: Style) -> Span {
    Span { text: text.into(), style, whole: false }
}

impl Span {
    /// The same, which a table never cuts.
    pub(crate) fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// The same, with no more than a row has of it.
    fn bounded(self) -> Self {
        if self.whole { self } else { Self { text: cut(&self.text, CELL), ..self } }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// What is written to.
pub(crate) struct Screen {
    out: Box<dyn Write>,
    width: usize,
    margin: usize,
}

impl Screen {
    /// Standard output, for prose.
    pub(crate) fn stdout() -> Self {
        Self::over(anstream::stdout())
    }

    /// Standard output, for lists: as wide as the terminal, or as it takes where there is none.
    pub(crate) fn fitted() -> Self {
        Self { out: Box::new(anstream::stdout()), width: width_of(&io::stdout()), margin: 0 }
    }

    pub(crate) fn over(out: impl Write + 'static) -> Self {
        Self { out: Box::new(out), width: WIDTH, margin: MARGIN }
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// A heading at the very left: `1  A plan`.
    pub(crate) fn heading(&mut self, mark: &str, title: &str) -> io::Result<()> {
        let (mark, title) = (span(format!("{mark:<MARGIN$}"), NAME), span(title, BOLD));
        self.spans(&[mark, title])
    }

    /// A paragraph.
    pub(crate) fn text(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.labelled(&[], span(text, style))
    }

    /// A label, and a text after it. Further lines hang beside the label's first part; line breaks are kept.
    pub(crate) fn labelled(&mut self, label: &[Span], body: Span) -> io::Result<()> {
        let whole = label.iter().map(Span::width).sum::<usize>();
        let hang = label.first().map_or(0, Span::width);
        let room = self.width.saturating_sub(self.margin + hang);
        let mut first = vec![span(" ".repeat(self.margin), PLAIN)];
        first.extend_from_slice(label);
        for (number, text) in body.text.lines().enumerate() {
            let taken = if number == 0 { whole - hang } else { 0 };
            for line in wrapped(text, room, taken) {
                let mut begin = std::mem::take(&mut first);
                if begin.is_empty() && !line.is_empty() {
                    begin.push(span(" ".repeat(self.margin + hang), PLAIN));
                }
                begin.push(span(line, body.style));
                self.spans(&begin)?;
            }
        }
        if first.is_empty() { Ok(()) } else { self.spans(&first) }
    }

    /// A label, and parts beside it if they fit; else below it, each on a line of its own.
    pub(crate) fn listed(&mut self, label: &Span, parts: &[String]) -> io::Result<()> {
        let beside = span(format!(" {}", parts.join(" ")), PLAIN);
        let label = std::slice::from_ref(label);
        if self.margin + label.iter().chain([&beside]).map(Span::width).sum::<usize>() <= self.width {
            return self.labelled(label, beside);
        }
        self.labelled(label, span("", PLAIN))?;
        for part in parts {
            self.labelled(&[span("    ", PLAIN)], span(part, PLAIN))?;
        }
        Ok(())
    }

    /// Whether the last column of such a table can have so much of the line.
    pub(crate) fn has_room(&self, rows: &[Vec<Span>], last: usize) -> bool {
        let widths = widths(rows);
        let before = widths.split_last().map_or(&[][..], |(_, before)| before);
        self.margin + before.iter().map(|width| width + GAP).sum::<usize>() + last <= self.width
    }

    /// Rows of cells in aligned columns. The last column takes what is left of the line; what does not fit is cut.
    pub(crate) fn table(&mut self, rows: &[Vec<Span>]) -> io::Result<()> {
        let widths = widths(rows);
        for row in rows {
            let mut line = vec![span(" ".repeat(self.margin), PLAIN)];
            let mut left = self.width.saturating_sub(self.margin);
            // Nothing comes after the last that says something, not even space.
            let used = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
            for (at, (cell, width)) in row.iter().zip(&widths).take(used).enumerate() {
                let last = at + 1 == used;
                let text = if cell.whole { cell.text.clone() } else { cut(&cell.text, left) };
                let gap = if last { 0 } else { (width + GAP).saturating_sub(cell.width()) };
                line.extend([span(text, cell.style), span(" ".repeat(gap), PLAIN)]);
                left = left.saturating_sub(width + GAP);
            }
            self.spans(&line)?;
        }
        Ok(())
    }

    /// A table with these titles if its last column can have so much of the line; else each row on as many lines as it takes,
    /// without titles.
    pub(crate) fn rows(&mut self, titles: &[&str], rows: Vec<Vec<Span>>, last: usize) -> io::Result<()> {
        let mut table = vec![titles.iter().map(|title| span(*title, BOLD)).collect::<Vec<_>>()];
        table.extend(rows.into_iter().map(|row| row.into_iter().map(Span::bounded).collect()));
        match self.has_room(&table, last) {
            true => self.table(&table),
            false => table.iter().skip(1).try_for_each(|row| self.flowed(row)),
        }
    }

    /// Cells one after the other; what has no room is on the next line, indented.
    fn flowed(&mut self, cells: &[Span]) -> io::Result<()> {
        const INDENT: usize = 4;
        let mut line: Vec<Span> = Vec::new();
        let mut used = 0;
        for cell in cells.iter().filter(|cell| !cell.text.is_empty()) {
            let room = self.width.saturating_sub(INDENT);
            let text = if cell.whole { cell.text.clone() } else { cut(&cell.text, room) };
            let width = text.chars().count();
            if used > 0 && used + GAP + width > self.width {
                self.spans(&std::mem::replace(&mut line, vec![span(" ".repeat(INDENT), PLAIN)]))?;
                used = INDENT;
            } else if used > 0 {
                line.push(span(" ".repeat(GAP), PLAIN));
                used += GAP;
            }
            line.push(span(text, cell.style));
            used += width;
        }
        self.spans(&line)
    }

    /// A line as it is, however long.
    pub(crate) fn spans(&mut self, spans: &[Span]) -> io::Result<()> {
        for Span { text, style, .. } in spans {
            write!(self.out, "{style}{text}{style:#}")?;
        }
        writeln!(self.out)
    }
}

/// How wide the widest cell of each column is.
fn widths(rows: &[Vec<Span>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column| rows.iter().filter_map(|row| row.get(column)).map(Span::width).max();
    (0..columns).map(|column| widest(column).unwrap_or(0)).collect()
}

/// How many columns there are: those of the terminal, or any number where there is none.
pub(crate) fn width_of(stream: &(impl AsFd + IsTerminal)) -> usize {
    if !stream.is_terminal() {
        return usize::MAX / 2;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// The lines that `text` takes, when `taken` columns of the first are used already. Breaks between words; a word that
/// is longer than a line is broken where it must.
fn wrapped(text: &str, width: usize, taken: usize) -> Vec<String> {
    let width = width.max(1);
    if taken + text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = taken;
    for (number, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        let gap = usize::from(number > 0);
        if used + gap + length <= width {
            line.push_str(if gap > 0 { " " } else { "" });
            line.push_str(word);
            used += gap + length;
            continue;
        }
        if used > 0 {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for letter in word.chars() {
            if used == width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(letter);
            used += 1;
        }
    }
    lines.push(line);
    lines
}

/// The text, or as much of its first line as fits, with a mark that something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= width && line.len() == text.len() {
        return line.to_owned();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept.trim_end().to_owned() + "…"
}

/// The text, or as much of its end as fits, with a mark that something is missing.
pub(crate) fn end_of(text: &str, width: usize) -> String {
    match text.chars().count().checked_sub(width) {
        None | Some(0) => text.to_owned(),
        Some(more) => format!("…{}", text.chars().skip(more + 1).collect::<String>().trim_start()),
    }
}
