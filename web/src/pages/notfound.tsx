// SPDX-License-Identifier: Apache-2.0
import { place } from '../lib/route';
import { LinkButton } from '../ui/Button';
import { Empty } from '../ui/parts';

export default function NotFound() {
	return <Empty icon="search" title="There is no such page" action={<LinkButton href="/ui/" icon="tree">To the tree</LinkButton>}>
		<code>{place.value.path}</code> is not a page of this dashboard. Press <kbd>Ctrl K</kbd> to find what you were looking for.</Empty>;
}
