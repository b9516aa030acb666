package nodoc // want `package nodoc has no doc comment`
