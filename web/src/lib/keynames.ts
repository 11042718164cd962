// SPDX-License-Identifier: Apache-2.0
// Names of the account's API keys, for lists of who did what: a person knows "ci", not ak-pbfzz.
import { useMemo } from 'preact/hooks';
import { useData } from './state';

/** The name of a key, or its id if it has none, belongs to another account or is gone. */
export function useKeyNames(): (keyId: string) => string {
	const data = useData<{ keys: { id: string; name: string | null }[] }>('/v1/keys');
	return useMemo(() => {
		const names = new Map((data.data?.keys ?? []).map((k) => [k.id, k.name]));
		return (id) => names.get(id) || id;
	}, [data.data]);
}
