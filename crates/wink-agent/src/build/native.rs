//! Tools of the program `claude` itself: a section of their own, for whoever has the program answer.

use wink::prompt::Section;

use super::Build;
use crate::file::{At, ModelTable, ProviderName};

impl Build<'_> {
    /// The section of those that a file names, if it names any. They are known to policies, whether they are given or not.
    pub(super) fn native_tools(&mut self, table: Option<&At<ModelTable>>) -> Option<Section> {
        // Others are told that they have none.
        let table = table.filter(|table| {
            table.provider.as_ref().is_some_and(|provider| provider.value == ProviderName::Claude)
        })?;
        let named = table.native_tools.as_ref().filter(|named| !named.is_empty())?;
        for (at, one) in named.iter().enumerate() {
            if named.iter().take(at).any(|other| other.value == one.value) {
                let message = format!("`{}` is there already", one.name());
                self.problems.hint(&one.span, message, "name it once");
            }
        }
        self.of_the_program(named)
    }

    #[cfg(feature = "claude")]
    fn of_the_program(&mut self, named: &At<Vec<At<crate::file::NativeName>>>) -> Option<Section> {
        use wink_models::claude::{Native, native_tools};
        let natives =
            Native::ALL.into_iter().filter(|native| named.iter().any(|one| one.name() == native.name()));
        let section = native_tools(natives);
        let path = section.key().to_owned();
        self.take_path(&path, &named.span);
        for tool in section.own_tools() {
            if self.take_name(tool.name(), &path, &named.span) {
                self.know(tool.clone(), &path, &named.span);
            }
        }
        Some(section)
    }

    #[cfg(not(feature = "claude"))]
    fn of_the_program(&mut self, named: &At<Vec<At<crate::file::NativeName>>>) -> Option<Section> {
        let message = "this program was built without Claude Code, which these tools are of";
        self.problems.hint(&named.span, message, "build it with `--features claude`, or leave them out");
        None
    }
}
