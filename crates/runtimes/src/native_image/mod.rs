//! Java programs that were compiled ahead of time (GraalVM). They have no virtual machine to ask.

use crate::detect::{Candidate, Command};
use crate::elf;
use crate::runtime::{Runtime, Steered};
use plimsoll_kernel::mapped::Named;

/// The section in which the compiler stores the objects that the program starts with.
const IMAGE_HEAP: &[u8] = b".svm_heap";

/// Native images of GraalVM, which are left alone.
#[derive(Clone, Copy, Debug)]
pub struct NativeImage;

impl Runtime for NativeImage {
    fn name(&self) -> &'static str {
        "native-image"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        let executable = command.executable();
        executable.is_some_and(|file| elf::has_section(file, IMAGE_HEAP))
    }

    fn runs(&self, process: &Candidate) -> bool {
        let executable = || Named::of_link(i32::try_from(process.pid()).ok()?, "exe").ok();
        !process.is_closed() && executable().is_some_and(|it| elf::has_section_in(it, IMAGE_HEAP))
    }

    fn steered(&self) -> Steered {
        Steered::LeftAlone(
            "it is a native image of GraalVM, which has no lever that is known: it is passive, and nothing \
             is added, sent or signalled to it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testbed::{Child, FuseServer};

    #[test]
    fn a_server_is_not_asked_for_the_executable_of_a_process() {
        let Some(server) = FuseServer::with(std::fs::read("/bin/sleep").unwrap()) else {
            return;
        };
        let program = Child::start(&server.file(), &["600"], None).unwrap();
        let sleeps = |stat: &str| stat.contains("(file) S ");
        let stat = format!("/proc/{}/stat", program.pid());
        while !std::fs::read_to_string(&stat).is_ok_and(|stat| sleeps(&stat)) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server.stand_still();
        let asked = server.asked();
        assert!(!NativeImage.runs(&Candidate::look(program.pid() as u32)));
        assert_eq!(server.asked(), asked);
    }
}
