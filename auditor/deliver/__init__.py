"""Makes a report into messages and hands them over: mail, chat, webhook, files."""

from auditor.deliver.chat import hand_over_chat as hand_over_chat
from auditor.deliver.digest import Digest as Digest
from auditor.deliver.digest import Saved as Saved
from auditor.deliver.digest import make_digest as make_digest
from auditor.deliver.files import drop as drop
from auditor.deliver.handover import Handover as Handover
from auditor.deliver.handover import NotHandedOver as NotHandedOver
from auditor.deliver.handover import Uncertain as Uncertain
from auditor.deliver.mail import Attachment as Attachment
from auditor.deliver.mail import compose as compose
from auditor.deliver.mail import subject as subject
from auditor.deliver.mail import write as write
from auditor.deliver.smtp import hand_over_mail as hand_over_mail
from auditor.deliver.webhook import hand_over_webhook as hand_over_webhook
