use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

use super::{CallRecordSettings, Storage};

/// A file that is put aside when it has grown large enough: `calls.jsonl` becomes `calls.jsonl.1`, which was `calls.jsonl.2` before
/// it, and so on. The oldest goes.
///
/// A line is written whole or not at all, as far as the disk lets itself be told: what a failed write has left behind is cut off
/// again. After a failure, the next line opens the file anew.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    max_bytes: u64,
    files: u32,
    /// None after a failure.
    file: Option<File>,
    bytes: u64,
}

impl RotatingFile {
    /// Opens the file, and goes on at its end if it is there.
    pub fn open(settings: CallRecordSettings) -> io::Result<Self> {
        let CallRecordSettings { path, max_bytes, files, .. } = settings;
        let mut rotating = Self { path, max_bytes, files: files.max(1), file: None, bytes: 0 };
        rotating.reopen()?;
        Ok(rotating)
    }

    /// Lets go of the file until the next line.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        self.bytes = file.metadata()?.len();
        if self.bytes > 0 && !ends_line(&mut file)? {
            // Half a line of a process that was killed. Readers lose that, and not the next one with it.
            file.write_all(b"\n")?;
            self.bytes += 1;
        }
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let numbered = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.files).rev() {
            let from = if number == 1 { self.path.clone() } else { numbered(number - 1) };
            match fs::rename(from, numbered(number)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        if self.files == 1 {
            fs::remove_file(&self.path)?;
        }
        self.reopen()
    }
}

fn ends_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl Storage for RotatingFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        let file = self.file.as_mut().expect("just opened");
        if let Err(error) = file.write_all(line) {
            // What it has left behind. If that fails too, the next opening ends the line.
            let _ = file.set_len(self.bytes);
            self.file = None;
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}
