//! Java programs that were compiled ahead of time (GraalVM). They have no virtual machine to ask.

use crate::candidate::Candidate;
use crate::command::Command;
use crate::elf::Elf;
use crate::recognise::Recognise;
use plimsoll_kernel::mapped::Named;

/// The section in which the compiler stores the objects that the program starts with.
const IMAGE_HEAP: &str = ".svm_heap";

/// Native images of GraalVM.
#[derive(Clone, Copy, Debug)]
pub struct NativeImage;

impl Recognise for NativeImage {
    fn name(&self) -> &'static str {
        "native-image"
    }

    fn starts(&self, command: &Command<'_>) -> bool {
        command.executable().and_then(Elf::at).is_some_and(is_image)
    }

    fn runs(&self, process: &Candidate<'_>) -> bool {
        let executable = || Named::of_link(i32::try_from(process.pid()).ok()?, "exe").ok();
        !process.is_closed()
            && executable()
                .and_then(|file| Elf::named(&file))
                .is_some_and(is_image)
    }
}

fn is_image(file: Elf) -> bool {
    file.has_section(IMAGE_HEAP)
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
