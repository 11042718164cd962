// SPDX-License-Identifier: Apache-2.0
import { Button } from '../../ui/Button';
import { Dialog } from '../../ui/Dialog';
import { Code } from '../../ui/parts';

/** A secret that the server tells once. */
export function Secret({ title, text, onClose }: { title: string; text: string; onClose: () => void }) {
	return <Dialog title={title} onClose={onClose}><p>Copy it now: it is shown only once, and the server keeps nothing but its hash.</p><Code text={text} />
		<div class="dialog-actions"><Button kind="primary" onClick={onClose}>I have it</Button></div></Dialog>;
}
