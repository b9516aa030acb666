/** A type whose members N says more exactly than T does. */
export type Narrow<T, N> = Omit<T, keyof N> & N;
