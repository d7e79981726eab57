//! Typed results. The program has the model hand one over by a tool of its own, and is asked here before it takes it: what does not fit
//! is refused in the words that any model is told, as often as any is, and stands in the log as it does there.

use tokio::io::AsyncRead;

use super::serve::Server;
use super::wire;
use crate::conversation::{Input, Next, Said, StopReason};
use crate::driver;
use crate::finish::Judged;

impl<R: AsyncRead + Unpin + Send> Server<'_, R> {
    /// Lets the program take a typed result, or tells the model what is wrong with it. Whether all is done is asked at the end.
    pub(super) async fn judge_output(&mut self, request: &str, id: &str) -> Result<(), StopReason> {
        let rendered = self.rendered()?;
        let handed = self.transcript.handed_over(id);
        let wrong = handed.and_then(|text| {
            let wrong = rendered.output()?.parse(&text).err()?;
            Some((text, wrong))
        });
        let Some((text, wrong)) = wrong else {
            self.writer.say(&wire::answer(request, Ok(wire::allow())));
            return Ok(());
        };
        let said = self.transcript.refused(text);
        self.tell(said).await?;
        let Next::Finish(text) = self.conversation.next() else {
            return Err(StopReason::Runtime("the typed result came when nobody waited for it".to_owned()));
        };
        let judged = Judged { output: Err(wrong), missing: None };
        let (input, _) = driver::finished(judged, self.conversation.reminders_left(), text);
        let told = match &input {
            Input::Said(Said::Reminded { missing }) => Some(wire::deny(missing)),
            _ => None,
        };
        self.calls.beside(self.ground.tell(&mut self.conversation, input, None)).await?;
        if let Some(told) = told {
            self.writer.say(&wire::answer(request, Ok(told)));
        }
        self.stopped()
    }
}
