//! The software of the servers: a virtual machine, Open Liberty, a page that searches, and the index that it
//! searches. All of these files are read by nobody else, so that the group under test pays for them.

use crate::harness::folder::Folder;
use crate::harness::load::{answers, free_address};
use crate::harness::programs::Jvm;
use crate::progress::Progress;
use crate::report::results::root;
use crate::{Error, Result};
use plimsoll_kernel::cgroup::Cgroup;
use plimsoll_testbed::children::{end_with_us, enter};
use rustix::fs::{Advice, fadvise, fsync};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Which virtual machine.
pub(super) const JVM: Jvm = Jvm {
    version: 17,
    collector: "Serial",
};
/// Megabytes of a server's heap and of its young generation: the smallest of the paper's Table 1.
pub(super) const HEAP: u32 = 256;
pub(super) const YOUNG: u32 = 64;
/// Megabytes of objects that live for good and are not touched.
pub(super) const KEPT: u32 = 100;
/// Documents of the index.
pub(super) const DOCUMENTS: u32 = 1_000_000;
/// The page that is asked for.
pub(super) const PAGE: &str = "/search/search.jsp";
/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(240);
/// Deepest folder that is copied or looked through.
const DEEPEST: u32 = 32;

const SERVER_XML: &str = r#"<server>
  <featureManager><feature>pages-3.1</feature></featureManager>
  <httpEndpoint id="defaultHttpEndpoint" host="127.0.0.1" httpPort="${env.PIN_PORT}" httpsPort="-1"/>
  <webApplication location="${env.PIN_PAGES}" contextRoot="/search"/>
  <applicationMonitor updateTrigger="disabled"/>
  <config updateTrigger="disabled"/>
</server>
"#;

/// The files.
#[derive(Debug)]
pub(super) struct Site {
    folder: Folder,
    liberty: PathBuf,
}

/// A server that runs.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    log: PathBuf,
}

impl Site {
    /// Copies the virtual machine, lays the page out and writes the index.
    ///
    /// # Errors
    /// When something is missing or cannot be written.
    pub(super) fn prepare(progress: &Progress) -> Result<Site> {
        let liberty = root().join(".cache/liberty/wlp");
        let jar = root().join(".cache/lucene/lucene-core-8.11.2.jar");
        for path in [&liberty, &jar] {
            fs::metadata(path).map_err(missing(path))?;
        }
        let site = Site {
            folder: Folder::on_disk("pin")?,
            liberty,
        };
        progress.tell(format_args!("copying the virtual machine"));
        let java = PathBuf::from(JVM.java());
        let real = java.canonicalize().map_err(missing(&java))?;
        let home = real.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
        let copied = copy(&home, &site.folder.path().join("jvm"), DEEPEST);
        copied.map_err(Error::file("copy", &home))?;
        let pages = site.pages();
        let put = |from: &Path, to: &Path| -> std::io::Result<()> {
            fs::create_dir_all(to.parent().unwrap_or(to))?;
            fs::copy(from, to).map(|_| ())
        };
        let page = root().join("bench/programs/pin/search.jsp");
        put(&page, &pages.join("search.jsp")).map_err(Error::file("copy", &page))?;
        put(&jar, &pages.join("WEB-INF/lib/lucene-core.jar")).map_err(Error::file("copy", &jar))?;
        progress.tell(format_args!("writing the index"));
        site.write_index()?;
        Ok(site)
    }

    fn pages(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    fn write_index(&self) -> Result<()> {
        let mut command = Command::new(self.folder.path().join("jvm/bin/java"));
        command.args(["-Xmx600m", "-cp"]);
        command.arg(root().join(".cache/lucene/*"));
        command.arg(root().join("bench/programs/pin/Index.java"));
        command.arg(self.index()).arg(DOCUMENTS.to_string());
        end_with_us(&mut command);
        let status = command.status().map_err(Error::start(&command))?;
        if status.success() {
            Ok(())
        } else {
            Err(Error::program("Index.java", status.to_string()))
        }
    }

    /// Drops what the page cache holds of the files, so that the next reader is charged for them.
    /// Pages that a process has mapped stay.
    pub(super) fn forget(&self) {
        for top in [self.folder.path(), &self.liberty] {
            for_each_file(top, DEEPEST, &mut |path| {
                // A file that is gone holds nothing.
                if let Ok(file) = File::open(path) {
                    let _ = fsync(&file);
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                }
            });
        }
    }

    /// Starts a server in a group. It may not answer yet.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&self, number: usize, group: &Cgroup) -> Result<Server> {
        let user = self.folder.path().join(format!("server-{number}"));
        let server = user.join("servers/pin");
        // Remains of an earlier round.
        let _ = fs::remove_dir_all(&user);
        fs::create_dir_all(&server).map_err(Error::file("make", &server))?;
        let xml = server.join("server.xml");
        fs::write(&xml, SERVER_XML).map_err(Error::file("write", &xml))?;
        let log = user.join("log");
        let file = File::create(&log).map_err(Error::file("write", &log))?;
        let errors = file.try_clone().map_err(Error::file("write", &log))?;
        let address = free_address()?;
        let mut command = Command::new(self.folder.path().join("jvm/bin/java"));
        command.args(JVM.choice()).arg("-XX:-UsePerfData");
        // The class archive stays as it is in the file, so that servers share its pages.
        command.args([
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:ArchiveRelocationMode=0",
        ]);
        command.args([format!("-Xms{HEAP}m"), format!("-Xmx{HEAP}m")]);
        command.arg(format!("-Xmn{YOUNG}m"));
        command.arg(format!("-Dpin.kept={KEPT}"));
        command.arg(format!("-Dpin.index={}", self.index().display()));
        let tools = self.liberty.join("bin/tools");
        let agent = tools.join("ws-javaagent.jar");
        command.arg(format!("-javaagent:{}", agent.display()));
        command
            .arg("-jar")
            .arg(tools.join("ws-server.jar"))
            .arg("pin");
        command.env("WLP_USER_DIR", &user);
        command.env("PIN_PORT", address.port().to_string());
        command.env("PIN_PAGES", self.pages());
        command.current_dir(&server);
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        end_with_us(&mut command);
        enter(&mut command, group).map_err(Error::file("enter", group.dir()))?;
        let child = command.spawn().map_err(Error::start(&command))?;
        Ok(Server {
            child,
            address,
            log,
        })
    }
}

impl Server {
    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it answers.
    ///
    /// # Errors
    /// When it ends instead, or takes too long.
    pub(super) fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !answers(self.address, PAGE) {
            crate::harness::interrupt::check()?;
            let ended = !self.lives();
            if ended || begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it wrote nothing");
                let what = if ended {
                    format!("ended: {last}")
                } else {
                    format!("no good answer in {} s: {last}", PATIENCE.as_secs())
                };
                return Err(Error::program("Open Liberty", what));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Under pressure it would take long to end by itself, and it has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn missing(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |e| Error::Missing {
        path,
        why: e.to_string(),
    }
}

/// Copies a folder. Links become what they point to; those to nothing are left out.
fn copy(from: &Path, to: &Path, deepest: u32) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let (Ok(metadata), Some(name)) = (fs::metadata(&path), path.file_name()) else {
            continue;
        };
        if metadata.is_file() {
            fs::copy(&path, to.join(name))?;
        } else if metadata.is_dir() && deepest > 0 && name != "jmods" {
            copy(&path, &to.join(name), deepest - 1)?;
        }
    }
    Ok(())
}

fn for_each_file(folder: &Path, deepest: u32, what: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            Ok(kind) if kind.is_file() => what(&path),
            Ok(kind) if kind.is_dir() && deepest > 0 => for_each_file(&path, deepest - 1, what),
            _ => {}
        }
    }
}
